"""Ten megabytes of bytes of every kind on standard output, some on standard error, with fifty steps in between."""
import os, random, sys

noise = random.Random(7)
out, err = sys.stdout.buffer, sys.stderr.buffer
for step in range(1, 51):
    out.write(noise.randbytes(200_000))
    err.write(noise.randbytes(3_000))
    out.write(b"\nstep %d\n" % step)
    out.flush()
    err.flush()
out.write(b"\0no line feed at the end")
out.flush()
os._exit(41)
