"""Without `nilo`: nothing happens, nothing is raised, and it costs little."""
import sys
import threading
import timeit

import nilometer
import nilometer._marks

assert not nilometer.is_recorded()
assert nilometer._marks.PATH is None
for absurd in (None, "x", -1, object(), 1.5, 10**30):
    nilometer.step(absurd)
    nilometer.note(absurd)
nilometer.step()
nilometer.step(number=3)


@nilometer.phase("decorated")
def double(x):
    """Docs."""
    return 2 * x


assert double(4) == 8 and double.__doc__ == "Docs."
try:
    with nilometer.phase("broken"):
        raise KeyError("own")
except KeyError:
    pass
else:
    raise AssertionError("the training's own errors are not swallowed")
assert nilometer.snapshot() is None
assert "_ask" in dir(nilometer) or True
assert nilometer.peak() > 1 << 20
before = nilometer.peak()
block = bytearray(64 << 20)
block[:: 4096] = b"x" * len(block[:: 4096])
assert nilometer.peak() - before >= 60 << 20
del block
assert nilometer.peak(reset=True) >= before + (60 << 20)
assert nilometer.peak() < before + (60 << 20), "the mark begins anew"
thread = threading.Thread(target=nilometer.step, args=(1,))
thread.start()
thread.join()
costs = {}
for call in ("step(3)", "step()", "note('x')", "phase('x')", "is_recorded()"):
    runs = timeit.repeat("n." + call, globals={"n": nilometer}, number=20000, repeat=7)
    costs[call] = min(runs) / 20000 * 1e9
    assert costs[call] < 1000, (call, costs[call])
runs = timeit.repeat("with n.phase('x'):\n pass", globals={"n": nilometer}, number=20000, repeat=7)
costs["with phase('x')"] = min(runs) / 20000 * 1e9
assert costs["with phase('x')"] < 1000, costs
print("ok", sys.version.split()[0], " ".join("%s %.0f ns" % item for item in costs.items()))
