"""The same, and 300,000 bytes of each step stay."""
import gc
from pace import steps


class Batch:
    def __init__(self):
        self.me = self
        self.data = bytearray(b"x" * 1_500_000)


gc.disable()
kept = []
for step in steps(200, 10):
    Batch()
    kept.append(bytearray(b"k" * 300_000))
    if step % 20 == 19:
        gc.collect()
