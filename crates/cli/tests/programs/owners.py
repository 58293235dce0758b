"""Functions that own known bytes, called through C code too. Works on every Python from 3.8 on."""
import functools
import os

kept = []


def keep(size):
    kept.append(bytearray(size))  # line: keep
    return size


def nested(size):
    for _ in map(keep, [size]):  # line: nested
        pass


class Model:
    def forward(self):
        functools.partial(nested, 300000)()  # line: forward
        [keep(200000) for _ in range(5)]  # line: comprehension


def spike():
    block = bytearray(9000000)  # line: spike
    del block


def main():
    model = Model()
    for _ in range(4):
        model.forward()  # line: main
    spike()


main()
os.write(1, b"kept %d\n" % sum(len(block) for block in kept))
os._exit(0)  # the interpreter's end would give back what is to be found
