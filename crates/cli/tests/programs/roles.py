"""Children of each kind that Python makes; says their pids, waits for a line, lets them go."""

import ctypes
import functools
import multiprocessing
import os
import subprocess
import sys


def wait(ready, end, name=None):
    if name:
        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME, as torch does
    ready.send(os.getpid())
    end.recv()


def release(ready, child):
    ready.send(None)
    child.join()


def workers(method, names):
    context = multiprocessing.get_context(method)
    for name in names:
        ready, theirs = context.Pipe()
        child = context.Process(target=wait, args=(theirs, theirs, name))
        child.start()
        yield ready.recv(), functools.partial(release, ready, child)


def ranks():
    for rank in range(2):
        environment = dict(os.environ, RANK=str(rank))
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment)
        yield child.pid, child.communicate


def main():
    kind = sys.argv[1]
    if kind == "ranks":
        made = list(ranks())
    elif kind == "loader":
        made = list(workers("fork", ["pt_data_worker", "pt_data_worker"]))
    else:
        made = list(workers(kind, [None, None]))
    print(*(pid for pid, _ in made), flush=True)
    sys.stdin.readline()
    for _, end in made:
        end()


if __name__ == "__main__":
    main()
