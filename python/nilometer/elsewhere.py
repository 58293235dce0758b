"""The ``nilo`` of a machine that it does not record on: says so. Part of the wheel for all machines only."""

import sys

WORDS = """\
nilo records on x86-64 Linux with glibc 2.28 or later, and this is another machine.
`import nilometer` works here: its marks do nothing, so a training script runs unchanged.

hint: run the training on a Linux machine with: nilo run -- python train.py"""


def main():
    sys.stderr.write(WORDS + "\n")
    return 5
