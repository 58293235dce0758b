"""One object of each kind that has a layout, and where Python says its parts are."""

import gc
import json
import sys
import types
import weakref


class Slotted:
    __slots__ = ("first", "second")


class Plain:
    """Doc."""

    def __init__(self):
        self.attribute = "value"


def outer(value):
    def function(argument=[1], *, keyword={}):
        "Doc."
        return value

    return function


def fail():
    error = ValueError("argument")
    error.__cause__ = KeyError()
    try:
        raise error
    except ValueError as caught:
        return caught


def parts(thing, *names):
    """Only what is an object of its own: not made up when asked for."""
    return {name: id(getattr(thing, name)) for name in names}


def generate():
    yield


function = outer(object())
function.__annotations__ = {"argument": list}
function.attribute = 1
method = Plain().__init__
error = fail()
generator = generate()
code = function.__code__
static, class_ = staticmethod(len), classmethod(len)
property_ = property(len, print, repr, "doc")
referenced = Plain()
weak = weakref.ref(referenced, print)
buffer = bytearray(b"buffer")
view = memoryview(buffer)
module = types.ModuleType("made_up")
descriptor = Plain.__dict__["__dict__"]

objects = {
    "function": [id(function), parts(
        function, "__globals__", "__name__", "__qualname__", "__code__", "__defaults__", "__kwdefaults__", "__doc__",
        "__dict__", "__closure__", "__module__", "__annotations__")],
    "code": [id(code), parts(code, "co_consts", "co_names", "co_filename", "co_name")],
    "method": [id(method), parts(method, "__func__", "__self__")],
    "builtin": [id(print), parts(print, "__self__", "__module__")],
    "cell": [id(function.__closure__[0]), parts(function.__closure__[0], "cell_contents")],
    "slice": [id(s := slice("a", "b", "c")), parts(s, "start", "stop", "step")],
    "property": [id(property_), parts(property_, "fget", "fset", "fdel", "__doc__")],
    "static_method": [id(static), parts(static, "__func__")],
    "class_method": [id(class_), parts(class_, "__func__")],
    "descriptor": [id(descriptor), parts(descriptor, "__objclass__", "__name__")],
    "traceback": [id(error.__traceback__), parts(error.__traceback__, "tb_frame")],
    "exception": [id(error), parts(error, "args", "__traceback__", "__cause__")],
    "memory_view": [id(view), parts(view, "obj")],
}
if sys.version_info >= (3, 11):
    objects["code"][1].update(parts(code, "co_qualname", "co_linetable", "co_exceptiontable"))

sizes = {kind.__name__: kind.__basicsize__ for kind in (
    dict, list, set, str, bytes, bytearray, type, types.ModuleType, types.GeneratorType, types.CodeType,
    types.FrameType, weakref.ReferenceType, property)}

kinds = {
    "type": {
        "object": id(Plain), "basicsize": Plain.__basicsize__, "itemsize": Plain.__itemsize__,
        "flags": Plain.__flags__, "dictoffset": Plain.__dictoffset__, "weaklistoffset": Plain.__weakrefoffset__,
        "base": id(Plain.__base__), "bases": id(Plain.__bases__), "mro": id(Plain.__mro__),
        "slotted": id(Slotted), "ht_name": id(Plain.__name__),
        "ht_qualname": id(Plain.__qualname__), "dict": id(gc.get_referents(Plain.__dict__)[0]),
    },
    "dict": {"object": id(table := {"one": 1, "two": 2}), "used": 2},
    "list": {"object": id(items := [object(), object()]), "first": id(items[0]), "second": id(items[1])},
    "tuple": {"object": id(pair := (object(), object())), "first": id(pair[0]), "second": id(pair[1])},
    "set": {"object": id(members := {1, 2, 3}), "used": 3},
    "bytearray": {"object": id(buffer), "exports": 1},
    "float": {"object": id(number := 1.5)},
    "module": {"object": id(module), "dict": id(module.__dict__), "name": id(module.__name__)},
    "weakref": {"object": id(weak), "referent": id(referenced), "callback": id(weak.__callback__)},
    "generator": {"object": id(generator), "name": id(generator.__name__), "qualname": id(generator.__qualname__)},
    "str": {"object": id(text := "äöü" * 3), "length": 9},
}

print(json.dumps({"objects": objects, "sizes": sizes, "kinds": kinds}), flush=True)
sys.stdin.read()
