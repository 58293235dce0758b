"""The same, unlinked by its reader."""
import os
from pace import steps

for step in steps(100, 5):
    path = f"/dev/shm/nilo-leaks-{os.getpid()}-{step}"
    with open(path, "wb") as file:
        file.write(bytes([step]) * 50_000)
    os.unlink(path)
