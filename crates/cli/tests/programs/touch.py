"""A training that touches BATCH MiB of what it has, again and again, and leaves the rest alone.

touch.py BATCH STEPS: 60 MiB that are written once and never again, BATCH MiB that every step writes over and over.
"""
import mmap
import os
import sys
import time

MIB = 1 << 20
batch, steps = int(sys.argv[1]), int(sys.argv[2])


def memory(mib):
    """Mapped alone and without huge pages: one touch is one page."""
    block = mmap.mmap(-1, mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(0, mib * MIB, mmap.PAGESIZE):
        block[page] = 1
    return block


def forget_translations():
    """A touch through a translation that the processor still has leaves no trace (docs/pages.md), and some processors have
    those of 16 MiB: giving back more than 33 pages at once empties all of this process's (arch/x86/mm/tlb.c)."""
    memory(1).close()


marks = open(os.environ["NILO_MARKS"], "a", buffering=1)
cold, hot = memory(60), memory(batch)
pages = range(0, batch * MIB, mmap.PAGESIZE)
for step in range(steps):
    marks.write(f"step {step}\n")
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        for page in pages:
            hot[page] = 2
        forget_translations()
