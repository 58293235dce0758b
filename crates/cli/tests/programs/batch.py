"""A training whose memory is known: 20 MiB of weights and BATCH MiB of activations in every step.

batch.py BATCH [STEPS] [LEAK_KIB]; marks its steps; fails, or lacks memory, where the batch says so.
"""
import os
import signal
import sys

MIB = 1 << 20
batch = int(sys.argv[1])
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
leak = int(sys.argv[3]) if len(sys.argv) > 3 else 0

if batch == 7:
    raise ValueError("a batch of seven")
if batch == 13:
    raise MemoryError

with open(os.environ.get("NILO_RUNS", os.devnull), "a") as runs:
    runs.write(f"{batch} {os.environ.get('OMP_NUM_THREADS', '-')}\n")

if os.environ.get("NILO_READY") and batch == 2:
    with open(os.environ["NILO_READY"], "w") as ready:
        ready.write("ready\n")
    with open(os.environ["NILO_GO"]) as go:
        go.read()

marks = open(os.environ["NILO_MARKS"], "a", buffering=1)
weights = bytearray(b"w") * (20 * MIB)
kept = []
for step in range(steps):
    marks.write(f"step {step}\n")
    activations = bytearray(b"a") * (batch * MIB)
    kept.append(bytearray(b"k") * (leak << 10))
    del activations

if os.environ.get("BATCH_HOLD"):
    signal.pause()  # until somebody ends it
