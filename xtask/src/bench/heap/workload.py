"""A heap of known make, at a scale, that answers orders on stdin. 1.0 is 3.4 million objects.

Orders: `busy` (loop until the next order and tell the longest gap seen), `guppy`, `pympler` (look at ourselves with
that tool and tell what it cost), `status` (RSS and faults). One line of JSON answers each.
"""
import gc
import json
import resource
import select
import sys
import time

import numpy as np


class Record:
    __slots__ = ("a", "b", "c", "d")

    def __init__(self, index):
        self.a, self.b, self.c, self.d = index, "r%d" % index, float(index), None


class Node:
    def __init__(self, index):
        self.name, self.value, self.next = "node%d" % index, index * 1.5, None


def build(scale):
    def up_to(count):
        return range(int(count * scale))

    arrays = [np.full(32, i, dtype="f8") for i in up_to(120_000)]
    return {
        "records": [Record(i) for i in up_to(265_000)],
        "arrays": arrays,
        "views": [arrays[i][2:20] for i in up_to(60_000)],
        "floats": [np.float64(i) for i in up_to(1_200_000)],
        "strings": ["string number %d" % i for i in up_to(300_000)],
        "nodes": [Node(i) for i in up_to(60_000)],
        "dicts": [{"a": i, "b": str(i)} for i in up_to(50_000)],
        "tuples": [(i + 10**6, "x") for i in up_to(100_000)],
        "bytes": [b"x" * (i % 700) for i in up_to(30_000)],
        "sets": [{i, i + 1, i + 2} for i in up_to(5_000)],
        "closures": [(lambda j: (lambda: j))(i) for i in up_to(5_000)],
        "large": [np.ones(1 << 20) for _ in up_to(128)],
    }


def status():
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rss_bytes": int(fields["VmRSS"].split()[0]) * 1024,
        "peak_bytes": int(fields["VmHWM"].split()[0]) * 1024,
        "minor_faults": usage.ru_minflt,
    }


def busy():
    """Small Python work; the longest time between two turns is what a stop does to a program."""
    longest, last, turns = 0.0, time.perf_counter(), 0
    while True:
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
        turns += 1
        if turns % 256 == 0 and select.select([sys.stdin], [], [], 0)[0]:
            return {"longest_gap_ms": longest * 1e3, "turns": turns}


def look_with_guppy():
    from guppy import hpy

    return len(str(hpy().heap()))


def look_with_pympler():
    from pympler import muppy, summary

    return len("\n".join(summary.format_(summary.summarize(muppy.get_objects()))))


def cost_of(look):
    gc.collect()
    before, cpu, wall = status(), time.process_time(), time.perf_counter()
    look()
    cost = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    after = status()
    cost["left_bytes"] = after["rss_bytes"] - before["rss_bytes"]
    cost["peak_added_bytes"] = after["peak_bytes"] - before["rss_bytes"]
    return cost


ORDERS = {
    "status": status,
    "busy": busy,
    "guppy": lambda: cost_of(look_with_guppy),
    "pympler": lambda: cost_of(look_with_pympler),
}
KEPT = build(float(sys.argv[1]))
gc.collect()
print(json.dumps({"ready": True}), flush=True)
while order := sys.stdin.readline().strip():
    print(json.dumps(ORDERS[order]()), flush=True)
