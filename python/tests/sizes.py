"""`sizeof` against sizes that are known another way."""
import sys

from nilometer import sizeof

FLOAT = sys.getsizeof(1.5)
floats = [i * 1.5 for i in range(1000)]
assert sizeof(floats) == sys.getsizeof(floats) + 1000 * FLOAT
assert sizeof(floats, floats) == sizeof(floats), "once"
twice = [floats, floats]
assert sizeof(twice) == sys.getsizeof(twice) + sizeof(floats)
block = bytearray(1 << 20)
view = memoryview(block)
assert sizeof(view) == sys.getsizeof(view) + sys.getsizeof(block)


class Node(object):
    def __init__(self):
        self.own = bytearray(1000)
        self.circle = self


node = Node()
measured, least = sizeof(node), sys.getsizeof(node) + sys.getsizeof(node.own)
# From 3.12 on a dictionary of attributes may not exist until somebody asks for it.
most = least + sys.getsizeof(node.__dict__) + sys.getsizeof("own") + sys.getsizeof("circle") + 200
assert least <= measured <= most, (least, measured, most)


class Slots(object):
    __slots__ = ("block",)


slots = Slots()
slots.block = bytearray(5000)
assert sizeof(slots) == sys.getsizeof(slots) + sys.getsizeof(slots.block)
assert sizeof(sys) < 10000, "a module is held by nobody, and not walked through"
assert sizeof(print) < 1000 and sizeof(None) < 100 and sizeof(Node) < 5000
function_in_list = [lambda: floats]
assert sizeof(function_in_list) == sys.getsizeof(function_in_list)


class Hostile(object):
    def __sizeof__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        raise RuntimeError("no")


assert sizeof([Hostile()]) > 0
deep = None
for _ in range(200000):
    deep = [deep]
assert sizeof(deep) >= 200000 * sys.getsizeof([None]), "no recursion"
checked = ["objects"]

try:
    import numpy
except ImportError:
    numpy = None
if numpy is not None:
    array = numpy.zeros(1000000)
    views = [array[10:], array[::2], array.reshape(1000, 1000), array]
    assert sizeof(array).payload == 8000000
    assert sizeof(views).payload == 8000000, "views of one array"
    assert 8000000 < sizeof(views) < 8002000
    only_view = array[5:10]
    assert sizeof(only_view).payload == 8000000, "it keeps all of it"
    inside = numpy.empty(3, dtype=object)
    inside[0] = bytearray(100000)
    assert 100000 < sizeof(inside) < 101000
    over = numpy.frombuffer(block, dtype=numpy.uint8)
    assert sys.getsizeof(block) <= sizeof(over) < sys.getsizeof(block) + 1000
    checked.append("numpy")
try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    tensor = torch.zeros(1000, 1000)
    assert sizeof(tensor).payload == 4000000
    assert sizeof([tensor[3:], tensor.t(), tensor]).payload == 4000000
    layer = torch.nn.Linear(500, 500)
    assert sizeof(layer).payload == 500 * 500 * 4 + 500 * 4, sizeof(layer).payload
    layer(torch.zeros(1, 500)).sum().backward()
    assert sizeof(layer).payload == 2 * (500 * 500 * 4 + 500 * 4), "with gradients"
    assert sizeof(array, torch.from_numpy(array)).payload == 8000000 if numpy else True
    checked.append("torch")
try:
    import pandas
except ImportError:
    pandas = None
if pandas is not None:
    frame = pandas.DataFrame({"a": numpy.zeros(100000), "b": numpy.arange(100000)})
    assert sizeof(frame).payload in range(1600000, 1600000 + 1000000), sizeof(frame)
    checked.append("pandas")
print("ok", *checked)
