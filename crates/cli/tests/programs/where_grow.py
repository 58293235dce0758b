"""Memory of known kinds, on demand: lines in, `bytes N` out."""
import sys

kept = []
print("ready", flush=True)
for line in sys.stdin:
    word, number = line.split()
    if word == "buffers":  # of 8 MiB each, all of it written to
        made = [bytearray(b"x" * (8 << 20)) for _ in range(int(number) // 8)]
    else:
        made = [float(i) for i in range(int(number))]
    kept.append(made)
    print("bytes", sum(map(sys.getsizeof, made)), flush=True)
