"""Things under names, in every way that Python has to hold them, some of them private."""

import json
import os
import sys

import census_objects

SECRET = "pass word 1"


class Tree(object):
    def __init__(self, depth):
        self.left = Tree(depth - 1) if depth else None
        self.leaf = [depth]


class Slotted(object):
    __slots__ = ("first", "second")


slotted = Slotted()
slotted.first = ["in a slot"]
tree = Tree(3)
Out = {17: ["output"], -1: ["negative"]}
hidden = {SECRET: ["secret"], ("a", 1): ["tuple"], "plain": ["named"]}
module = census_objects
module.planted = ["planted"]


def closing():
    held = ["in a cell"]
    return lambda: held


closure = closing()


def generating(batch):
    yield batch


waiting = generating(["in a generator"])
next(waiting)


def run(batch):
    addresses = {
        "attribute": id(tree.left.leaf),
        "slot": id(slotted.first),
        "index": id(Out[17]),
        "negative": id(Out[-1]),
        "secret": id(hidden[SECRET]),
        "tuple": id(hidden["a", 1]),
        "named": id(hidden["plain"]),
        "planted": id(module.planted),
        "cell": id(closure.__closure__[0]),
        "generator": id(waiting.gi_frame.f_locals["batch"]),
        "local": id(batch),
    }
    print(json.dumps({"pid": os.getpid(), "addresses": addresses}), flush=True)
    sys.stdin.read()


run(["a batch"])
