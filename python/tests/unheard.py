"""Without `nilo`: nothing happens, nothing is raised, and it costs what a call of an empty function costs."""
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


class Nothing(object):
    """The least that a `with` can cost."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        return None


NOTHING = Nothing()


def nothing(text=None):
    return NOTHING


def least_of_both(call, empty, number=4000):
    """Nanoseconds each, measured in turns: how fast the machine is at that moment is in both."""
    names = {"n": nilometer, "nothing": nothing}
    timers = [timeit.Timer(code, globals=names) for code in (call, empty)]
    rounds = [[timer.timeit(number) for timer in timers] for _ in range(15)]
    return [min(times) / number * 1e9 for times in zip(*rounds)]


pairs = [
    ("n.%s" % call, "nothing(3)") for call in ("step(3)", "step()", "note('x')", "phase('x')", "is_recorded()")
]
pairs.append(("with n.phase('x'):\n pass", "with nothing('x'):\n pass"))
costs = []
for call, empty in pairs:
    ours, least = least_of_both(call, empty)
    costs.append("%s %.0f ns" % (call.split("\n")[0], ours))
    assert ours < 3 * least, (call, ours, least)
print("ok", sys.version.split()[0], ", ".join(costs))
