"""Allocates and frees without end; what is kept is told by address."""

import json
import sys
import threading

kept = [[i, str(i), {"k": i}] for i in range(2000)]
kept += [["large"] * 1000 for _ in range(50)]
ends = []


def wait():
    sys.stdin.read()
    ends.append(True)


threading.Thread(target=wait, daemon=True).start()
print(json.dumps({"kept": [id(thing) for thing in kept]}), flush=True)
churn = []
while not ends:
    churn.append({"a": [1.5 * len(churn)], "b": "text %d" % len(churn), "c": (len(churn), bytes(len(churn) % 700))})
    if len(churn) > 5000:
        del churn[::2]
