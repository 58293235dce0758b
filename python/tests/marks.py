"""Under `nilo run`: marks from threads, forks and nested phases; the peak by way of the recording."""
import asyncio
import os
import sys
import threading
import warnings

import nilometer

assert nilometer.is_recorded()


@nilometer.phase("decorated")
def decorated():
    nilometer.note("inside")


@nilometer.phase("awaited")
async def awaited():
    nilometer.note("inside, later")


with nilometer.phase("outer"):
    with nilometer.phase("inner"):
        pass
decorated()
asyncio.run(awaited())
nilometer.note("two\nlines  and spaces")
nilometer.note("x" * 100000)
nilometer.note("pid=1 ns=2")
for number in range(5):
    nilometer.step(number)
nilometer.step("no number")
nilometer.step(-4)
threads = [threading.Thread(target=lambda: [nilometer.note("t") for _ in range(50)]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# A thread that was joined may still be there for the kernel, and a Python that sees it warns.
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if child == 0:
    nilometer.note("child")
    os._exit(0)
os.waitpid(child, 0)
# Somebody who closes everything and opens a file of their own must not find marks in it.
os.closerange(3, 256)
with open("own.txt", "w") as own:
    nilometer.note("after")
    own.write("mine")
assert open("own.txt").read() == "mine"
block = bytearray(200 << 20)
block[::4096] = b"x" * len(block[::4096])
del block
first = nilometer.peak(reset=True)
second = nilometer.peak()
assert first > 200 << 20 > second, (first, second)
del os.environ["NILO_CONTROL"]
assert nilometer.peak(reset=True) <= first
print("ok", first)
