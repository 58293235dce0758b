"""Multiplies matrices: the library behind numpy then fills mappings of its own. Tells what of them is in memory."""
import sys

import numpy


def anonymous():
    resident, start = {}, None
    with open("/proc/self/smaps") as lines:
        for line in lines:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                start = words[0] if len(words) == 5 else None
            elif start and words[0] == "Rss:":
                resident[start] = int(words[1]) * 1024
    return resident


a = numpy.random.rand(1500, 1500)
out = numpy.zeros_like(a) + 1
before = anonymous()
numpy.matmul(a, a, out=out)
after = anonymous()
grown = [now for where, now in after.items() if now - before.get(where, 0) >= 1 << 20]
print("pool", sum(grown), flush=True)
sys.stdin.read()
