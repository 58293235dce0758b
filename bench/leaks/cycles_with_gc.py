"""The same circles, and a collector that runs."""
import gc
from pace import steps


class Node:
    def __init__(self):
        self.me = self
        self.data = bytearray(b"x" * 50_000)


gc.set_threshold(20, 2, 2)
for step in steps(160, 8):
    Node()
