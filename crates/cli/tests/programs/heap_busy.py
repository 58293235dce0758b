"""Never stands still: `threads` (500 that wait), `collect`, `fork`, `allocate`. Counts its turns until its input ends.

The nodes that it holds never change: whoever looks must find all 1000, whatever goes on.
"""
import gc
import os
import sys
import threading


class Node:
    def __init__(self, number):
        self.value = number + 0.5


nodes = [Node(number) for number in range(1000)]
over = threading.Event()


def collect():
    gc.collect()


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def allocate():
    kept = [bytes(size) for size in range(1, 2000, 7)]
    kept.extend({str(number): [number]} for number in range(500))


def wait():
    over.wait(0.01)


def watch_input():
    sys.stdin.read()
    over.set()


turn = {"threads": wait, "collect": collect, "fork": fork, "allocate": allocate}[sys.argv[1]]
threading.Thread(target=watch_input).start()
if sys.argv[1] == "threads":
    for _ in range(499):
        threading.Thread(target=over.wait).start()
turn()
sys.stdout.write("ready\n")
sys.stdout.flush()
turns = 0
while not over.is_set():
    turn()
    turns += 1
assert len(nodes) == 1000 and nodes[999].value == 999.5
sys.stdout.write("turns %d\n" % turns)
