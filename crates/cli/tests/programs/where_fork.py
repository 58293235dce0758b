"""A list of floats and an array; four children read the list, four the array. Each tells its pid and how many bytes
became its own meanwhile."""
import os
import sys

try:
    import numpy
except ImportError:
    numpy = None


def private_bytes():
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) << 10 for line in rollup if line.startswith("Private_Dirty:"))


def read_list():
    for _ in values:
        pass


def read_array():
    if numpy is not None:
        array.sum()
    else:
        for place in range(0, len(array), 4096):
            array[place]


values = [number * 0.5 for number in range(int(sys.argv[1]))]
array = numpy.full(8 << 20, 0.5) if numpy is not None else bytearray(b"x") * (64 << 20)
until, end = os.pipe()
for read in [read_list] * 4 + [read_array] * 4:
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(end)
        read()
        os.write(tell, b"%d %d\n" % (os.getpid(), private_bytes()))
        os.read(until, 1)
        os._exit(0)
    os.close(tell)
    sys.stdout.write(os.read(told, 100).decode())
    sys.stdout.flush()
sys.stdin.read()
