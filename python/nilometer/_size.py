"""Deep sizes: every object that is held counts once, every buffer once however many views it has.

Not for: the whole process (``nilo heap`` reads that from outside). The one invariant: nothing is called that belongs to
the objects, but the attributes of arrays and tensors that tell where their numbers are.
"""

import gc
import sys
import types

# Held by everybody or by the program itself, not by who refers to them.
_FOREIGN = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    property,
    classmethod,
    staticmethod,
    type(None),
    type(NotImplemented),
    type(Ellipsis),
    bool,
)


class Size(int):
    """Bytes; ``payload`` of them are numbers of arrays and tensors, in ``objects`` objects."""

    payload = 0
    objects = 0

    def __repr__(self):
        return "%s (%s of arrays and tensors, %d objects)" % (
            text(self),
            text(self.payload),
            self.objects,
        )

    __str__ = __repr__


def text(size):
    """As ``nilo`` writes sizes."""
    size = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    if unit == "B":
        return "%d B" % size
    digits = 2 if abs(size) < 10 else 1 if abs(size) < 100 else 0
    return "%.*f %s" % (digits, size, unit)


class Walk(object):
    """What was counted so far; several objects may be measured one after the other."""

    def __init__(self):
        self.seen = {}
        self.buffers = {}
        self.total = 0
        self.payload = 0

    def add(self, root):
        """Counts what ``root`` holds and was not counted before."""
        waiting = [root]
        first = True
        while waiting:
            found = waiting.pop()
            if id(found) in self.seen or (isinstance(found, _FOREIGN) and not first):
                continue
            first = False
            self.seen[id(found)] = found  # kept, so that no other object gets its address meanwhile
            waiting.extend(self._count(found))
        return self

    def _count(self, found):
        try:
            size, numbers, held = _measure(found)
        except Exception:
            size, numbers, held = _own(found), (), ()
        self.total += size
        for address, length in numbers:
            known = self.buffers.get(address, 0)
            if length > known:
                self.buffers[address] = length
                self.total += length - known
                self.payload += length - known
        return held

    def size(self):
        size = Size(self.total)
        size.payload = self.payload
        size.objects = len(self.seen)
        return size


def sizeof(*objects):
    walk = Walk()
    for one in objects:
        walk.add(one)
    return walk.size()


def _own(found):
    try:
        return sys.getsizeof(found)
    except Exception:
        return 0


def _measure(found):
    """Own bytes, buffers as (address, bytes), what it holds."""
    kind = type(found)
    measure = _chosen.get(kind)
    if measure is None:
        measure = _choose(kind)
        if len(_chosen) < 10000:
            _chosen[kind] = measure
    return measure(found)


_chosen = {}


def _choose(kind):
    """By the classes of libraries that are loaded; nothing is imported for it."""
    for name, measure in _KNOWN:
        library, _, known = name.partition(":")
        known = getattr(sys.modules.get(library), known, None)
        if isinstance(known, type) and issubclass(kind, known):
            return measure
    return _alone if issubclass(kind, _FOREIGN) else _plain


def _alone(found):
    return _own(found), (), ()


def _plain(found):
    return _own(found), (), gc.get_referents(found)


def _numpy(array):
    """The array at the bottom owns the numbers; the others look at them."""
    bottom = array
    numpy = sys.modules["numpy"]
    while isinstance(bottom.base, numpy.ndarray):
        bottom = bottom.base
    attributes = getattr(array, "__dict__", None)
    held = [attributes] if attributes else []
    if array.dtype.hasobject:
        held.extend(bottom.ravel().tolist())
    numbers = []
    if bottom.base is None and bottom.nbytes:
        numbers = [(bottom.__array_interface__["data"][0], bottom.nbytes)]
    elif bottom.base is not None:
        held.append(bottom.base)
    owned = array.nbytes if array.flags.owndata else 0
    return max(_own(array) - owned, 0), numbers, held


def _tensor(tensor):
    held = [part for part in (tensor.grad if tensor.is_leaf else None,) if part is not None]
    attributes = getattr(tensor, "__dict__", None)
    if attributes:
        held.append(attributes)
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    length = storage.nbytes()
    numbers = [(storage.data_ptr(), length)] if length and storage.data_ptr() else []
    return _own_of(tensor), numbers, held


def _own_of(found):
    """``__sizeof__`` of some libraries includes the numbers."""
    return object.__sizeof__(found)


def _frame(table):
    """Columns of pandas are arrays of its blocks."""
    arrays = [block.values for block in table._mgr.blocks]
    axes = list(table._mgr.axes)
    return object.__sizeof__(table), (), arrays + axes


def _index(index):
    return object.__sizeof__(index), (), [index._data]


def _arrow(array):
    numbers = []
    waiting = [array]
    while waiting:
        part = waiting.pop()
        chunks = getattr(part, "chunks", None)
        columns = getattr(part, "columns", None)
        if columns is not None:
            waiting.extend(columns)
        elif chunks is not None:
            waiting.extend(chunks)
        else:
            numbers.extend((buffer.address, buffer.size) for buffer in part.buffers() if buffer)
    return object.__sizeof__(array), numbers, ()


def _view(view):
    return _own(view), (), [view.obj] if view.obj is not None else ()


_KNOWN = [
    ("numpy:ndarray", _numpy),
    ("torch:Tensor", _tensor),
    ("pandas:DataFrame", _frame),
    ("pandas:Series", _frame),
    ("pandas:Index", _index),
    ("pyarrow:Array", _arrow),
    ("pyarrow:ChunkedArray", _arrow),
    ("pyarrow:Table", _arrow),
    ("pyarrow:RecordBatch", _arrow),
    ("builtins:memoryview", _view),
]
