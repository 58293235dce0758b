"""Holds nodes in a dict of a module and grows by orders: `grow N`, `shrink N`, `circle N`, `big N` (bytes of C memory).

Answers each order with the number of nodes, so that whoever reads it knows the truth.
"""
import ctypes
import gc
import sys


class Node:
    def __init__(self, number):
        self.value = number + 0.5
        self.items = [number]


class Holder:
    def __init__(self):
        self.nodes = []


class Circle:
    pass


holder = Holder()


def grow(count):
    start = len(holder.nodes)
    holder.nodes.extend(Node(start + number) for number in range(count))


def circle(count):
    for _ in range(count):
        one, other = Circle(), Circle()
        one.other, other.one = other, one


def big(count):
    """Memory of which nobody can tell from outside that it is not needed."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    libc.memset(libc.malloc(count), 1, count)


def obey(order, count):
    if order == "grow":
        grow(count)
    elif order == "shrink":
        del holder.nodes[len(holder.nodes) - count:]
    elif order == "circle":
        circle(count)
    elif order == "big":
        big(count)


def tell(line):
    sys.stdout.write(line + "\n")  # at once: others may write to the same pipe
    sys.stdout.flush()


gc.disable()
tell("ready")
for line in sys.stdin:
    order, _, count = line.strip().partition(" ")
    obey(order, int(count or 0))
    tell("nodes %d" % len(holder.nodes))
