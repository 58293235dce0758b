"""Garbage in circles, collected by hand every twenty steps."""
import gc
from pace import steps


class Batch:
    def __init__(self):
        self.me = self
        self.data = bytearray(b"x" * 1_500_000)


gc.disable()
for step in steps(200, 10):
    Batch()
    if step % 20 == 19:
        gc.collect()
