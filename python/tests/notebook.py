"""Executes a real notebook in an ordinary kernel and checks what its cells say."""
import re
import sys

import nbformat
from nbclient import NotebookClient

MIB = 1 << 20
TOUCH = "{0} = bytearray({1} << 20); {0}[::4096] = b'x' * len({0}[::4096])"
CELLS = [
    "%load_ext nilometer",
    "%nilo",
    TOUCH.format("block", 64),
    "%nilo diff",
    "bytearray(2 << 20)[:0] or bytearray(3 << 20) and bytes(1 << 20)[:1000000]",
    "%nilo vars",
    "%%nilo\n" + TOUCH.format("temporary", 100) + "\ndel temporary\nkept = [dict() for _ in range(20000)]",
    "%nilo x = bytearray(10)",
    "%nilo help",
    "%%nilo\n1 / 0",
    "block = None",
    "%nilo diff",
    "%unload_ext nilometer",
]


def said(cell):
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue") or "")
    return "\n".join(parts)


def mib(text):
    number, unit = re.search(r"([0-9.]+) (KiB|MiB|GiB|B)", text).groups()
    return float(number) * {"B": 1 / MIB, "KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
NotebookClient(book, timeout=60, allow_errors=True).execute()
told = [said(cell) for cell in book.cells]
for code, text in zip(CELLS, told):
    print(">>>", code.splitlines()[0], "\n", text[:600], file=sys.stderr)

assert "RSS" in told[1] and "python objects" in told[1], told[1]
assert re.search(r"new +block \(64.0 MiB\)", told[3]), told[3]
assert 62 < mib(told[3].split("(")[1]) < 68, told[3]
assert re.search(r"64.0 MiB +64.0 MiB +block \(bytearray\)", told[5]), told[5]
assert re.search(r"977 KiB +977 KiB +Out\[5\] \(bytes\)", told[5]), told[5]
assert "Answer" not in told[5], told[5]
peak = mib(told[6].split("(")[1])
assert 98 < peak < 104, told[6]
assert "dict" in told[6] and "VmHWM" in told[6], told[6]
assert "<svg" in book.cells[6].outputs[-1]["data"]["text/html"]
assert "kept" in told[7] and "kinds" not in told[7], told[7]
assert "%nilo vars" in told[8]
assert "division by zero" in told[9] and "the cell failed" in told[9], told[9]
assert re.search(r"changed +block", told[11]), told[11]
assert mib(told[11].split("(")[1]) > 60 and "-" in told[11].split("(")[1], told[11]
print("ok")
