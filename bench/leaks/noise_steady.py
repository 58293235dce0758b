"""A hundred megabytes and batches of any size up to seven more: noise, no growth."""
import random
from pace import steps

model = bytearray(b"m" * 100_000_000)
random.seed(7)
for step in steps(200, 10):
    batch = bytearray(b"b" * random.randrange(7_000_000))
