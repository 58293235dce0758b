"""Threads that stand still in every sort of frame; prints their stacks, locals and suspended generators."""

import _thread
import asyncio
import functools
import json
import sys
import threading
import time

LATIN = "ä"
ready = _thread.allocate_lock()
never = _thread.allocate_lock()
never.acquire()
ready.acquire()


def ready_then_sleep(seconds):
    ready.release() or time.sleep(seconds)


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Outer:
    class Inner:
        @traced
        def method(self, number):
            text = "x" * number
            return [ready_then_sleep(3600) for _ in range(1)], text

        @staticmethod
        def static(depth):
            if depth:
                return Outer.Inner.static(depth - 1)
            ready.release() or never.acquire()

    @classmethod
    def via_c(cls):
        # From Python through C into Python again, twice.
        return sorted(
            [3, 1],
            key=lambda number: list(map(lambda inner: ready.release() or never.acquire(), [number])),
        )


def generating(count):
    held = {"held": count}
    for number in range(count):
        with threading.Lock():
            try:
                yield (ready.release() or never.acquire()) if number == 1 else held
            finally:
                held = None


def consume():
    total = 0
    for item in generating(3):
        total += len(item)


async def inner(value):
    await asyncio.sleep(0)
    ready.release() or never.acquire()


async def outer():
    values = [
        1,
        2,
    ]
    return await inner(
        values
    )


def run_loop():
    asyncio.run(outer())


def größe():
    code = compile("\n\n\nready.release() or never.acquire()\n", "made <up> ä", "exec")
    exec(code, globals())


class Marker:
    made = []

    def __init__(self):
        self.made.append(id(self))


def keep(*things):
    return things


def temporaries():
    keep(Marker(), ready_then_sleep(3600))


def many_lines():
    first = (1,
             2)
    second = [first,
              ready.release() or never.acquire(),
              first]
    return second


# No line of its own: a class body and a module's top level come by exec as well.
BODY = """
class Body:
    attribute = 1
    other = ready.release() or never.acquire()
"""


def class_body():
    exec(compile(BODY, "body.py", "exec"), {"ready": ready, "never": never})


TARGETS = [
    Outer.Inner().method, Outer.via_c, consume, run_loop, größe, temporaries, many_lines, class_body,
]


def start(function, *args):
    thread = threading.Thread(target=function, args=args, name="thread " + function.__qualname__, daemon=True)
    thread.start()
    ready.acquire()
    return thread


def describe(frame):
    frames = []
    while frame is not None:
        code = frame.f_code
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        plain = set(code.co_varnames) - set(code.co_cellvars)
        held = {name: id(value) for name, value in frame.f_locals.items() if name in plain and not name.startswith(".")}
        frames.append([code.co_filename, name, frame.f_lineno, held])
        frame = frame.f_back
    return frames


def suspended():
    def steps():
        local, other = object(), [1]
        yield local
        yield other

    async def coroutine(argument):
        awaited = ["held"]
        await future
        return awaited

    class Future:
        def __await__(self):
            yield self

    async def asynchronous():
        mine = {1: 2}
        yield mine

    future = Future()
    started, fresh, finished = steps(), steps(), steps()
    next(started)
    list(finished)
    waiting = coroutine("argument")
    waiting.send(None)
    agen = asynchronous()
    try:
        agen.__anext__().send(None)
    except StopIteration:
        pass
    return [started, fresh, finished, waiting, agen]


def describe_generator(generator):
    kind = {"generator": "gi", "coroutine": "cr", "async_generator": "ag"}[type(generator).__name__]
    frame = getattr(generator, kind + "_frame")
    code = getattr(generator, kind + "_code")
    cells = set(code.co_cellvars) | set(code.co_freevars)
    held = {} if frame is None else {n: id(v) for n, v in frame.f_locals.items() if n not in cells}
    return {"generator": id(generator), "frame": id(frame) if frame else 0, "locals": held}


def truth(generators):
    threads = {thread.ident: thread for thread in threading.enumerate()}
    stacks = []
    for ident, frame in sys._current_frames().items():
        thread = threads[ident]
        frame = sys._getframe(1) if thread is threading.main_thread() else frame
        stacks.append({"name": thread.name, "native": thread.native_id, "frames": describe(frame)})
    generators = [describe_generator(generator) for generator in generators]
    return json.dumps({
        "version": sys.hexversion, "stacks": stacks, "generators": generators, "marker": Marker.made[0],
        "modules": id(sys.modules), "sys": id(sys.__dict__), "type": id(type),
    })


def main():
    start(Outer.Inner.static, 300)
    for target in TARGETS:
        start(target, *([5] if target == TARGETS[0] else []))
    kept = suspended()
    print(truth(kept), flush=True) or sys.stdin.read()


main()
