"""Threads that call, return, generate, import and collect without end."""

import gc
import json
import sys
import threading

sys.setswitchinterval(1e-5)


def recurse(depth):
    kept = [{} for _ in range(depth)]
    return recurse(depth - 1) if depth else kept


def generate(count):
    for number in range(count):
        yield [number] * 3


def work(seed):
    turn = seed
    while True:
        turn = (turn * 1103515245 + 12345) % 2**31
        recurse(turn % 50)
        list(generate(100))
        sorted(range(50), key=lambda number: recurse(3) and number)
        globals()["name%d" % (turn % 1000)] = object()
        sys.modules["module%d" % (turn % 500)] = sys
        if turn % 100 == 0:
            gc.collect()


for seed in range(4):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
print(json.dumps({}), flush=True)
sys.stdin.read()
