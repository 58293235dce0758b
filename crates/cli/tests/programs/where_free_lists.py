"""Fills the interpreter's free lists, tells on its standard error what is in them, and waits."""
import os
import sys


def nested(depth):
    return depth if depth == 0 else nested(depth - 1)


def fill():
    floats = [number * 0.5 for number in range(5000)]
    lists = [[number] for number in range(500)]
    dicts = [{number: number} for number in range(500)]
    tuples = [(number,) * (number % 8 + 1) for number in range(5000)]
    nested(150)
    return len(floats) + len(lists) + len(dicts) + len(tuples)


fill()
sys._debugmallocstats()
os.write(1, b"ready\n")
os.read(0, 1)
