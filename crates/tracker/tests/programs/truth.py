"""Allocates blocks of sizes that only it uses, from many kinds of frames, and prints beside each the stack
as the interpreter itself tells it: file, qualified name (where there is one) and line, innermost first."""
import json
import sys
import threading

held = []


def truth(size):
    frame, stack = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        stack.append([code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno])
        frame = frame.f_back
    print(json.dumps([size, stack]))


def plain(size):
    held.append(bytearray(size)); truth(size)


def deep(size, depth):
    if depth:
        return deep(size, depth - 1)
    held.append(bytearray(size)); truth(size)


class Outer:
    class Inner:
        def method(self, size):
            (lambda: (held.append(bytearray(size)), truth(size)))()

    def __len__(self):  # called from C
        held.append(bytearray(70051)); truth(70051)
        return 3

    @property
    def attribute(self):
        held.append(bytearray(70052)); truth(70052)
        return 1


def generator(size):
    for step in range(3):
        held.append(bytearray(size + step)); truth(size + step)
        yield step


def nested(size):
    def inner():
        plain(size)
    return sorted([3, 1, 2], key=lambda n: inner() or n if n == 2 else n)


def größe_наименование(size):
    held.append(bytearray(size)); truth(size)


def many_lines(size):
    value = [
        n
        for n in range(3)
        if n
        != 5
    ]


    # far below

    for item in value:
        if item == 2:
            held.append(bytearray(size)); truth(size)


def handler(size):
    try:
        raise ValueError
    except ValueError:
        held.append(bytearray(size)); truth(size)
    finally:
        held.append(bytearray(size + 1)); truth(size + 1)


for turn in range(2):  # the second time from memory
    base = 70000 + 100 * turn
    plain(base + 1)
    deep(base + 2, 30)
    deep(base + 3, 29)
    Outer.Inner().method(base + 4)
    list(generator(base + 5))
    nested(base + 8)
    größe_наименование(base + 9)
    many_lines(base + 10)
    handler(base + 11)
    exec(compile("\n\nplain(%d)" % (base + 13), "made up.py", "exec"))
    [plain(base + 14) for _ in range(1)]
len(Outer())
Outer().attribute
thread = threading.Thread(target=deep, args=(70061, 7))
thread.start()
thread.join()
sys.stdout.flush()
