"""A data set in a mapped file, read for the first time: pages of the file, no memory of the program."""
import mmap
import os
import tempfile
from pace import steps

BLOCK = 400_000
with tempfile.TemporaryFile(dir=os.environ.get("LEAKS_DISK", ".")) as file:
    for _ in range(160):
        file.write(os.urandom(1000) * (BLOCK // 1000))
    file.flush()
    data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    total = 0
    for step in steps(160, 8):
        total += sum(data[step * BLOCK:(step + 1) * BLOCK:4096])
