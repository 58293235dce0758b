"""Ten steps through $NILO_MARKS; each keeps 100,000 bytes more and passes 3,000,000 through. Waits for the mark to be read."""
import os
import sys

kept = []
for step in range(int(sys.argv[1])):
    passing = bytearray(3_000_000)
    kept.append(bytearray(100_000))
    del passing
    with open(os.environ["NILO_MARKS"], "a") as marks:
        marks.write(f"step {step}\n")
    print("step", flush=True)
    sys.stdin.readline()
print("done", flush=True)
