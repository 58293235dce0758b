"""A training whose every name would like to be markup: process, arguments, phases, notes, files, functions."""

import mmap
import os
import sys

NAME = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>"

marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)
with open("/proc/self/comm", "w") as comm:
    comm.write("<b>x</b>")


def work(size):
    return bytearray(size)


names = {"co_name": NAME, "co_filename": NAME + "/evil<i>.py"}
if sys.version_info >= (3, 11):
    names["co_qualname"] = NAME
work.__code__ = work.__code__.replace(**names)

path = os.path.join(sys.argv[1], "<img src=x onerror=alert(3)>.bin")
with open(path, "wb") as file:
    file.write(b"x" * (8 << 20))
mapped = mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)
total = sum(mapped[::4096])

kept = []
for step in range(8):
    marks.write(f"phase {NAME} {step}\n")
    marks.write(f"note {NAME}\n")
    marks.write(f"step {step}\n")
    kept.append(work(8 << 20))
    kept[-1][::4096] = b"1" * len(kept[-1][::4096])
