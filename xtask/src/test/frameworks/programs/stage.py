"""What is the same for every framework: `FRAMEWORK_loop.py run|allocs|leak|fixed|hold` plays one training and tells its own truth.

A script has a class `Training(Loop)` and calls `play(Training)`. The class has

    version             the framework's own word for its release
    step()              one real step of training
    buffers()           (address, bytes) of each buffer that the training keeps
    kind, count()       the name of a type, and how many of it the program itself finds
    categories()        bytes by what they are for, as far as the framework itself tells them
    array(count)        a new array of so many float32, each of them written
    nbytes(array), touch(array)

Truths are lines of JSON on standard output; orders come on standard input, so nobody has to guess when something is ready.
"""
import ctypes
import gc
import json
import os
import select
import sys
import time
import types

STEPS = 8
LEAK_STEPS = 160
STEP_SECONDS = 0.03
LEAKED = 250_000  # numbers a step: more than what a malloc holds free could hide
KNOWN = 3_000_000
MORE = (1_000, 300_000, 3_000_000)
HOT, COLD = 16 << 20, 32 << 20


class Loop:
    """The plain loop; trainers that have one of their own override both."""

    def drive(self, count, after):
        for number in range(1, count + 1):
            self.step()
            after(number)

    def pad(self):
        """More of the same work, so that a step lasts as long as it should."""
        self.step()

    def categories(self):
        return {}


def tell(**what):
    print(json.dumps(what), flush=True)


def status(field):
    """A field of our own /proc/self/status, in bytes."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def mark(step, marks=os.environ.get("NILO_MARKS")):
    if marks:
        with open(marks, "a") as out:
            out.write(f"step {step}\n")


def reachable(root, wanted):
    """All objects of a type below a root, as the collector itself finds them; code and modules are no part of it."""
    code = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.FrameType)
    seen, found, pending = set(), [], [root]
    while pending:
        it = pending.pop()
        if id(it) in seen or isinstance(it, code):
            continue
        seen.add(id(it))
        if isinstance(it, wanted):
            found.append(it)
        pending += gc.get_referents(it)
        if isinstance(getattr(it, "base", None), wanted):  # numpy does not show it to the collector
            pending.append(it.base)
    return found


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def malloc_in_use():
    """What the C library itself says it has handed out."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd


def known_array(training):
    """The line whose bytes are known."""
    return training.array(KNOWN)


def run(training):
    training.drive(STEPS, mark)
    tell(peak_bytes=status("VmHWM"))


def allocs(training):
    kept = known_array(training)
    training.drive(STEPS, mark)
    tell(known_bytes=training.nbytes(kept), categories=training.categories())


def leak(training, leaks=True):
    kept, begun = [], time.monotonic()

    def after(step):
        while time.monotonic() < begun + step * STEP_SECONDS:
            training.pad()
        if not leaks:
            kept.clear()
        kept.append(training.array(LEAKED))
        mark(step)

    training.drive(LEAK_STEPS, after)
    tell(leaked_bytes_per_step=sum(map(training.nbytes, kept)) / LEAK_STEPS)


def truth(training):
    unique = dict(training.buffers())
    tell(array_bytes=sum(unique.values()), array_buffers=len(unique), kind=training.kind, count=training.count(),
         malloc_in_use_bytes=malloc_in_use(), rss_bytes=status("VmRSS"))


def more(training, kept):
    """Arrays of known sizes; made once before, so that what is compiled for them is there."""
    [training.array(count) for count in MORE]
    tell(made=True)
    sys.stdin.readline()
    kept += [training.array(count) for count in MORE]
    tell(bytes=sum(map(training.nbytes, kept)))


def touch_until_told(training, kept):
    """Reads one array over and over and another not at all; an order ends it."""
    hot, cold = training.array(HOT), training.array(COLD)
    kept += [hot, cold]
    gc.disable()  # a collection looks at every object
    for _ in range(3):
        training.touch(hot)
    tell(hot_bytes=training.nbytes(hot), cold_bytes=training.nbytes(cold))
    while not select.select([sys.stdin], [], [], 0)[0]:
        training.touch(hot)


def hold(training):
    training.drive(STEPS, lambda step: None)
    training.count(), malloc_in_use()  # what the question itself allocates is there the second time
    kept, orders = [], {"truth": truth, "more": lambda it: more(it, kept), "touch": lambda it: touch_until_told(it, kept)}
    # By hand: an iterator over standard input would read ahead.
    for order in iter(sys.stdin.readline, ""):
        orders.get(order.strip(), lambda it: None)(training)


def play(make):
    import __main__

    training = __main__.training = make()
    tell(version=training.version, python=sys.version.split()[0], pid=os.getpid())
    modes = {"run": run, "allocs": allocs, "leak": leak, "fixed": lambda it: leak(it, leaks=False), "hold": hold}
    modes[sys.argv[1]](training)
