"""The same history, but only its last thirty entries are kept."""
from collections import deque
from pace import steps

history = deque(maxlen=30)
for step in steps(160, 8):
    history.append(bytes([step % 256]) * 65536)
