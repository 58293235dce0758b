"""Small objects in numbers that the program knows: lists of tuples, made and dropped."""
import os
import sys

kept = []


def make(count):
    return [(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6) for n in range(count)]


def keep():
    kept.append(make(20000))


def drop():
    make(20000)


keep()
for _ in range(5):
    drop()
print(sys.getsizeof(kept[0][0]))
sys.stdout.flush()
os._exit(0)  # the interpreter's end would free what is to be found
