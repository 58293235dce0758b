"""Objects in circles, and a collector that was switched off "for speed"."""
import gc
from pace import steps


class Node:
    def __init__(self):
        self.me = self
        self.data = bytearray(b"x" * 50_000)


gc.disable()
for step in steps(160, 8):
    Node()
