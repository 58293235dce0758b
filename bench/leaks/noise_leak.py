"""The same noise, and 200,000 bytes of each step stay."""
import random
from pace import steps

model = bytearray(b"m" * 100_000_000)
kept = []
random.seed(7)
for step in steps(200, 10):
    batch = bytearray(b"b" * random.randrange(7_000_000))
    kept.append(bytearray(b"k" * 200_000))
