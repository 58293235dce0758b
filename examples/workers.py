#!/usr/bin/env python3
"""Forked workers that only read a data set, and copy it all the same.

A data set of Python floats is shared with the workers by the fork. Reading an
object counts a reference to it, which is a write: page by page, each worker gets
a copy of its own. With `--array` the numbers lie in one buffer that nobody writes
to, and stay shared.

    nilo run -- python3 examples/workers.py
    nilo run -- python3 examples/workers.py --array
"""

import argparse
import array
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--items", type=int, default=1_000_000)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--seconds", type=float, default=3)
parser.add_argument("--array", action="store_true", help="one buffer instead of a list of objects")
options = parser.parse_args()

numbers = (number * 0.5 for number in range(options.items))
data = array.array("d", numbers) if options.array else list(numbers)
begin = time.monotonic()
for _ in range(options.workers):
    if os.fork() == 0:
        part = 0
        while time.monotonic() < begin + options.seconds:
            # A tenth of the data set for each tenth of the time.
            limit = min(10, int((time.monotonic() - begin) / options.seconds * 10) + 1)
            while part < limit:
                sum(data[part * options.items // 10 : (part + 1) * options.items // 10])
                part += 1
            time.sleep(0.01)
        os._exit(0)
for _ in range(options.workers):
    os.wait()
