"""Stands still in the middle of a collection: large tuples in a cycle, unreachable, one with a finalizer that waits."""

import gc
import json
import sys


class Waiting(object):
    def __del__(self):
        print(json.dumps({"lists": addresses}), flush=True)
        sys.stdin.read()


def make():
    holder = [Waiting()]
    made = tuple([holder] + [None] * 200)
    found = [id(made)]
    for number in range(50):
        made = (made,) + tuple(str(number) for _ in range(200))
        found.append(id(made))
    holder.append(made)
    return found


gc.disable()
addresses = make()
gc.collect()
