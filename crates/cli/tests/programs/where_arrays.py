"""Arrays of known sizes, on demand: lines in, `bytes N` out."""
import sys

import numpy

kept = []
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "arrays":
        made = [numpy.full(int(words[2]), 1.5) for _ in range(int(words[1]))]
    elif words[0] == "untouched":
        made = [numpy.empty(int(words[1]))]
    elif words[0] == "map":
        made = [numpy.memmap(words[1], dtype="uint8", mode="r")]
        int(made[0].sum())
    elif words[0] == "objects":
        made = []
        kept.append([(number, str(number)) for number in range(int(words[1]))])
    kept.append(made)
    print("bytes", sum(array.nbytes for array in made), flush=True)
