"""Allocates from 32,768 different stacks, so that a report of it has something to draw."""

import itertools

DEPTH = 5
WIDTH = 8

kept = []
steps = []


def call(rest):
    if rest:
        steps[rest[0]](rest[1:])
    else:
        kept.append(bytearray(1000))


for number in range(WIDTH):
    scope = {"call": call}
    exec(f"def step_{number}(rest):\n    call(rest)", scope)
    steps.append(scope[f"step_{number}"])

for choice in itertools.product(range(WIDTH), repeat=DEPTH):
    call(choice)
