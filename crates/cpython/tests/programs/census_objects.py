"""The workload of census.py: one function per part, each returns what must be kept."""

import array
import asyncio
import collections
import contextvars
import csv
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import mmap
import os
import re
import struct
import sys
import threading
import types
import weakref
import xml.etree.ElementTree as tree


class Rec(object):
    __slots__ = ("a", "b", "c", "d", "__weakref__")

    def __init__(self, a, b):
        self.a = a
        self.b = b
        self.c = float(a)


class SubRec(Rec):
    __slots__ = ("e",)


class DictRec(Rec):
    pass


class Node(object):
    def __init__(self, number):
        self.name = "node %d" % number
        self.value = number * 1.5
        self.next = None


class Odd(object):
    """Attributes in another order, many of them, and some deleted."""

    def __init__(self, number):
        for index in range(number % 40):
            setattr(self, "attribute%d" % ((index * 7) % 40), index + 1000)
        if number % 3 == 0:
            self.__dict__["late"] = number
        if number % 5 == 0 and number % 40 > 7:
            del self.attribute7


class SubDict(dict):
    pass


class SubList(list):
    __slots__ = ("extra",)


class SubTuple(tuple):
    pass


class SubInt(int):
    pass


class SubStr(str):
    pass


class SubBytes(bytes):
    pass


class SubFloat(float):
    pass


class SubSet(set):
    pass


class SubError(Exception):
    def __init__(self, number):
        Exception.__init__(self, "number %d" % number)
        self.number = number


class Descriptors(object):
    def get(self):
        return 1

    prop = property(get, None, None, "documented")
    static = staticmethod(lambda: 1)
    bound = classmethod(lambda cls: cls)


Point = collections.namedtuple("Point", "x y")
Colour = enum.Enum("Colour", "red green blue")


@dataclasses.dataclass
class Data:
    x: int
    y: list


def plain(count=9000):
    few = count // 20
    dicts = [{"a": i, "b": str(i)} for i in range(count // 4)]
    mixed = [{i: str(i), (i, 1): None, "s": i + 70000} for i in range(few)]
    for d in mixed[::2]:
        del d["s"]
    big = {i: i + 1 for i in range(count)}
    for i in range(0, count, 3):
        del big[i]
    recs = [Rec(i + 1000, "rec %d" % i) for i in range(count)]
    subs = [SubRec(i + 1000, None) for i in range(few)] + [DictRec(i, "x") for i in range(few)]
    for rec in subs[:few]:
        rec.e = rec
    for number, rec in enumerate(subs[few:]):
        rec.late = number + 5000
    nodes = [Node(i) for i in range(count // 2)]
    for a, b in zip(nodes, nodes[1:]):
        a.next = b
    shown = [Node(i) for i in range(few)]
    for node in shown:
        vars(node)["more"] = [1]
    return dict(
        dicts=dicts, mixed=mixed, big=big, recs=recs, subs=subs, nodes=nodes, shown=shown,
        odd=[Odd(i) for i in range(few)],
        texts=["text %d" % i for i in range(count)] + ["caf\u00e9 %d" % i for i in range(few)]
        + ["\u0141 %d" % i for i in range(few)] + ["\U0001f600 %d" % i for i in range(few)] + ["y" * i for i in range(400, 1400)],
        tuples=[(i + 10 ** 6, "x", None) for i in range(count // 2)] + [tuple(range(1000))] + [()],
        bytes=[b"x" * (i % 700) for i in range(few)],
        arrays_of_bytes=[bytearray(i) for i in range(700)],
        sets=[set(range(i % 60, i % 60 + i % 9)) for i in range(few)] + [frozenset([i, str(i)]) for i in range(few)],
        big_set=set(str(i) for i in range(count)),
        ints=[10 ** (i % 900) for i in range(few)] + [-(10 ** i) for i in range(300)],
        floats=[i * 0.37 for i in range(count)] + [complex(i, 1) for i in range(few)],
        lists=[[i] * (i % 50) for i in range(few)] + [[]],
        sub=[SubDict(a=i) for i in range(few)] + [SubTuple([i, "t"]) for i in range(few)] + [SubInt(i) for i in range(few)]
        + [SubStr("s%d" % i) for i in range(few)] + [SubBytes(b"b%d" % i) for i in range(few)]
        + [SubFloat(i) for i in range(few)] + [SubSet([i]) for i in range(few)] + [sub_list(i) for i in range(few)],
        rest=rest(few), linked=linked(few), code=code(few),
    )


def small():
    return plain(2000)


def buffers():
    import numpy as np

    return dict(
        arrays=[np.ones(1 << 20) for _ in range(3)], array=array.array("d", bytes(8 << 20)), texts=[b"x" * (3 << 20)],
        bytes=bytearray(5 << 20), objects=np.array([None] * (1 << 18), dtype=object),
    )


def sub_list(number):
    made = SubList([number])
    if number % 2:
        made.extra = "extra %d" % number
    return made


def rest(few):
    times = [datetime.time(i % 24, i % 60) for i in range(few)]
    zoned = [datetime.time(1, 2, tzinfo=datetime.timezone(datetime.timedelta(minutes=i))) for i in range(few)]
    moments = [datetime.datetime(2020, 1, 1) + datetime.timedelta(minutes=i) for i in range(few)]
    moments += [datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc) for i in range(few)]
    return dict(
        times=times, zoned=zoned, moments=moments, dates=[m.date() for m in moments],
        decimals=[decimal.Decimal(i) / 7 for i in range(few)], fractions=[fractions.Fraction(i, 7) for i in range(few)],
        points=[Point(i, str(i)) for i in range(few)], data=[Data(i, [i]) for i in range(few)], colours=list(Colour),
        stats=[os.stat("/") for _ in range(10)], slices=[slice(i, i + 10000, None) for i in range(few)],
        ranges=[range(i, i + 10000) for i in range(few)], views=[memoryview(bytearray(100))[i:] for i in range(50)],
        spaces=[types.SimpleNamespace(a=i, b=[i]) for i in range(few)], modules=[types.ModuleType("made%d" % i) for i in range(50)],
        arrays=[array.array("d", range(i)) for i in range(100)], proxies=[types.MappingProxyType({"a": i}) for i in range(few)],
        structs=[struct.Struct("%di" % (i + 1)) for i in range(50)], maps=[mmap.mmap(-1, 8192) for _ in range(3)],
        patterns=[re.compile("a{%d}(?P<name>b)" % (i + 1)) for i in range(50)],
        matches=[re.match("(a)(b)?", "ab" * (i + 1)) for i in range(50)], trees=tree.fromstring("<a x='1'>t<b/>u<c>v</c><b/><b/><b/><b/></a>"),
        files=[io.StringIO("x" * 100), io.BytesIO(b"y" * 5000), open(__file__), open(__file__, "rb")],
        readers=[csv.reader(["a,b"]), csv.writer(io.StringIO())], locals=[thread_local(i) for i in range(20)],
        errors=[error(i) for i in range(few // 10)], locks=[threading.Lock(), threading.RLock(), threading.Condition()],
    )


def thread_local(number):
    local = threading.local()
    local.number = [number]
    return local


def error(number):
    try:
        raise SubError(number)
    except SubError as caught:
        try:
            raise ValueError("second") from caught
        except ValueError as second:
            return second


class Weak(object):
    pass


def linked(few):
    targets = [Weak() for _ in range(few)]
    ordered = [collections.OrderedDict((str(j), j + 5000) for j in range(i % 30)) for i in range(few // 4)]
    for o in ordered:
        if len(o) > 3:
            o.move_to_end("1")
            del o["2"]
    return dict(
        targets=targets, refs=[weakref.ref(t) for t in targets], calls=[weakref.ref(t, print) for t in targets],
        proxies=[weakref.proxy(t) for t in targets], table=weakref.WeakValueDictionary((i, t) for i, t in enumerate(targets)),
        deques=[collections.deque([str(j) for j in range(i)], maxlen=None if i % 2 else 90) for i in range(200)],
        ordered=ordered, defaults=[default(i) for i in range(few)], counters=[collections.Counter("abca") for _ in range(few)],
        chains=[collections.ChainMap({i: 1}, {}) for i in range(50)],
        iterators=[iter([i]) for i in range(few)] + [iter({i: 1}) for i in range(few)] + [iter({i: 1}.items()) for i in range(few)]
        + [iter((i,)) for i in range(few)] + [iter({i}) for i in range(few)] + [reversed([i]) for i in range(few)]
        + [enumerate([i]) for i in range(few)] + [zip([i], [i]) for i in range(few)] + [map(str, [i]) for i in range(few)]
        + [itertools.chain([i], [2]) for i in range(few)] + [itertools.count(i + 9999) for i in range(few)]
        + [itertools.groupby([i, i]) for i in range(few)] + list(itertools.tee([few, 2])) + [itertools.cycle([1]), itertools.islice([1], 1)],
        parts=[functools.partial(print, i, end=str(i)) for i in range(few)], cache=cached(few), contexts=contexts(),
    )


def default(number):
    made = collections.defaultdict(list)
    made[number].append(number)
    return made


def cached(few):
    @functools.lru_cache(maxsize=100)
    def bounded(a, b=None):
        return [a, b]

    @functools.lru_cache(maxsize=None)
    def endless(a):
        return str(a)

    for i in range(few):
        bounded(i + 7000, b=i)
        endless(i + 7000)
    return bounded, endless


def contexts():
    variables = [contextvars.ContextVar("v%d" % i, default=i) for i in range(200)]

    def fill():
        tokens = [v.set([i]) for i, v in enumerate(variables)]
        return tokens, contextvars.copy_context()

    context = contextvars.Context()
    return variables, context.run(fill), context


def generator(number):
    inner = [number]
    for x in range(3):
        yield inner, x


async def coroutine(number):
    held = {number: 1}
    await waiting()
    return held


@types.coroutine
def waiting():
    yield 1


async def asynchronous(number):
    held = [number]
    yield held


def started(number):
    made = generator(number)
    if number % 3:
        next(made)
    if number % 7 == 0:
        list(made)
    return made


def begun(number):
    made = coroutine(number)
    made.send(None)
    return made


def code(few):
    made = []
    for i in range(few // 4):
        space = {}
        exec(compile("def f%d(a, b=[%d], *, c='k%d'):\n    x = a\n    def g(): return x\n    return g" % (i, i, i), "made%d" % i, "exec"), space)
        made.append(space)
    classes = [type("Made%d" % i, (Node,), {"attribute": [i], "method": lambda self: 1}) for i in range(100)]
    descriptors = Descriptors()
    return dict(
        made=made, closures=[next(iter(m.values())) for m in made], classes=classes, instances=[c(1) for c in classes],
        lambdas=[(lambda j: (lambda: j))(i) for i in range(few)], generators=[started(i) for i in range(few)],
        coroutines=[begun(i) for i in range(50)], asynchronous=[asynchronous(i) for i in range(50)],
        methods=[descriptors.get for _ in range(few)], builtins=[[].append for _ in range(few)], supers=[super(SubRec, SubRec(1, 2))],
        annotated=[annotated(i) for i in range(50)], aliases=[list[int] if sys.version_info >= (3, 9) else None],
    )


def annotated(number):
    def made(a: "int" = number, *rest: str) -> None:
        """Documented."""
        return number

    made.attribute = [number]
    return made


def loop():
    """An event loop with a task that waits."""
    made = asyncio.new_event_loop()
    future = made.create_future()

    async def wait():
        await future

    task = made.create_task(wait())
    made.call_soon(made.stop)
    made.run_forever()
    return made, future, task


def numpy():
    import numpy as np

    class SubArray(np.ndarray):
        pass

    base = [np.full(32, i, dtype="f8") for i in range(1000)]
    record = np.dtype([("a", "i4"), ("o", "O"), ("inner", [("p", "O"), ("q", "f8")])])
    records = np.zeros(20, dtype=record)
    for i in range(20):
        records[i] = (i, [i], ("text %d" % i, 1.0))
    objects = np.array([str(i) for i in range(5000)] + [None], dtype=object)
    file = np.memmap("/tmp/nilometer-census-%d.bin" % os.getpid(), dtype="u1", mode="w+", shape=(1 << 20,))
    os.unlink("/tmp/nilometer-census-%d.bin" % os.getpid())
    return dict(
        base=base, views=[b[2:20] for b in base], scalars=[np.float64(i) for i in range(5000)] + [np.int32(7), np.bool_(True)],
        records=records, scalar_records=[records[i] for i in range(5)], objects=objects, file=file, sub=[np.arange(10).view(SubArray)],
        types=[np.arange(10).astype(t) for t in "?bBhHiIlLqQefdgFDG"] + [np.array(["a", "bcd"]), np.array([b"x", b"yz"])],
        dates=np.arange("2020-01", "2020-03", dtype="datetime64[D]"), empty=[np.empty(0), np.empty((3, 0)), np.array(5.0)],
        big=[np.ones(1 << 18) for _ in range(4)], matrix=np.ones((200, 300), order="F"), borrowed=np.frombuffer(b"abcdefgh" * 100, dtype="u1"),
        shaped=[np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)], fancy=np.ones((50, 50))[::2, ::3],
    )


def arrays(kept):
    """Address, data, bytes, whether it owns them, elements and their type, of each array."""
    import gc

    import numpy as np

    found, seen = [], set()
    front = [kept]
    while front:
        thing = front.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found.append([id(thing), thing.__array_interface__["data"][0], thing.nbytes, bool(thing.flags.owndata), thing.size, thing.dtype.name])
            front.append(thing.base)
        elif isinstance(thing, (dict, list)):
            front.extend(gc.get_referents(thing))
    return found
