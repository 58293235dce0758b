"""A history that nobody reads: 64 KiB more in a list with each step."""
from pace import steps

history = []
for step in steps(160, 8):
    history.append(bytes([step % 256]) * 65536)
