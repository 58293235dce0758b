"""A counter instead of a log."""
from pace import steps

total = 0
for step in steps(200, 10):
    total += len(bytes([step % 256]) * 991)
