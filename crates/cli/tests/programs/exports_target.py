"""Steps, phases and a note through $NILO_MARKS; each step keeps 1,000,000 bytes; goes on when it gets a line."""
import os
import sys


def mark(text):
    with open(os.environ["NILO_MARKS"], "a") as marks:
        marks.write(text + "\n")


def keep_more():
    return bytearray(1_000_000)


kept = []
mark("phase warm-up")
for step in range(int(sys.argv[1])):
    if step == 2:
        mark("phase training")
        mark("note half-way")
    mark(f"step {step}")
    kept.append(keep_more())
    print("step", flush=True)
    sys.stdin.readline()
print("done", flush=True)
