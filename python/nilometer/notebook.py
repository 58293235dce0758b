"""``%load_ext nilometer`` in an ordinary notebook kernel: ``%nilo``, ``%%nilo``, ``%nilo vars``, ``%nilo diff``.

Nothing of the kernel is changed but two event callbacks. What needs the ``nilo`` command (kinds of object, what memory is
made of) asks it as a child, which this process allows to look where Yama would not.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import types

from . import _ask
from ._size import Walk, text

_HELP = """\
%nilo              resident memory now, since the last cell, and what it is made of
%nilo STATEMENT    its peak and what it keeps          %%nilo   the same of a cell, with kinds and a curve
%nilo vars [N]     which names hold how much           %nilo diff   what the last cell changed"""
_BARS = " ▁▂▃▄▅▆▇█"
_TOP = 5
# In another process: a thread would not run while the interpreter is busy. Thins itself, so that it stays small.
_WATCHER = """
import os, select, sys, time
pid, every, seen = int(sys.argv[1]), 0.005, []
page = os.sysconf("SC_PAGE_SIZE")
sys.stdout.write("ready\\n"); sys.stdout.flush()
try:
    while not select.select([0], [], [], every)[0]:
        with open("/proc/%d/statm" % pid) as file:
            seen.append((time.monotonic(), int(file.read().split()[1]) * page))
        if len(seen) >= 2000:
            seen, every = seen[::2], every * 2
except Exception:
    pass
for moment, size in seen:
    sys.stdout.write("%f %d\\n" % (moment, size))
"""


class Watcher(object):
    """The curve of a stretch."""

    def __init__(self):
        pipe = subprocess.PIPE
        words = [sys.executable, "-I", "-S", "-c", _WATCHER, str(os.getpid())]
        try:
            self.child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self.child.stdout.readline()
        except Exception:
            self.child = None

    def end(self):
        """(seconds, bytes) in order."""
        if self.child is None:
            return []
        try:
            out, _ = self.child.communicate(b"\n", timeout=10)
            points = [line.split() for line in out.decode().splitlines()]
            points = [(float(moment), int(size)) for moment, size in points]
            return [(moment - points[0][0], size) for moment, size in points]
        except Exception:
            self.child.kill()
            return []


def thin(points, columns):
    """The highest of each column."""
    if not points:
        return []
    end = points[-1][0] or 1.0
    heights = [None] * columns
    for moment, size in points:
        at = min(int(moment / end * columns), columns - 1)
        heights[at] = max(size, heights[at] or 0)
    last = points[0][1]
    for at, size in enumerate(heights):
        last = heights[at] = last if size is None else size
    return heights


def spark(points, columns=60):
    heights = thin(points, columns)
    if not heights:
        return ""
    low, high = min(heights), max(heights)
    span = float(high - low) or 1.0
    return "".join(_BARS[1 + int((size - low) / span * 7)] for size in heights)


def picture(points, width=560, height=90):
    """The curve as SVG."""
    heights = thin(points, width // 2)
    if len(heights) < 2:
        return ""
    low, high = min(heights), max(heights)
    span = float(high - low) or 1.0
    corners = " ".join(
        "%d,%.1f" % (at * 2, height - 4 - (size - low) / span * (height - 20)) for at, size in enumerate(heights)
    )
    label = '<text x="4" y="12" font-size="11" fill="currentColor">%s</text>'
    return (
        '<svg width="%d" height="%d" role="img" aria-label="resident memory"><polyline fill="none" stroke="#3b76af" '
        'stroke-width="1.5" points="%s"/>%s</svg>' % (width, height, corners, label % text(high))
    )


class Answer(object):
    """Lines of text, and a picture where there is a screen for it."""

    def __init__(self, lines, points=(), values=None):
        self.lines = lines
        self.points = list(points)
        self.values = values or {}

    def __repr__(self):
        curve = spark(self.points)
        return "\n".join(self.lines + ([" curve    " + curve] if curve else []))

    def _repr_html_(self):
        from html import escape

        return "<pre>%s</pre>%s" % (escape("\n".join(self.lines)), picture(self.points))


def signed(size):
    return ("+" if size >= 0 else "-") + text(abs(size))


def resident():
    return _ask.status(b"VmRSS:") or 0


class Magics(object):
    """What the magics know: the shell, and the last cell."""

    def __init__(self, shell):
        self.shell = shell
        self.began = None
        self.last = None

    # Events of the shell.

    def before(self, *_):
        self.began = (resident(), self.names())

    def after(self, *_):
        if self.began is not None:
            self.last = (self.began, (resident(), self.names()))

    def names(self):
        """Name to identity of what the user made."""
        return {name: id(value) for name, value in self.values().items()}

    def values(self):
        """What the user made, outputs included."""
        space = self.shell.user_ns
        hidden = getattr(self.shell, "user_ns_hidden", {})
        other = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, Answer)
        found = {
            name: value
            for name, value in list(space.items())
            if not (name.startswith("_") or name in hidden or name in ("In", "Out") or isinstance(value, other))
        }
        for number, value in list((space.get("Out") or {}).items()):
            if not isinstance(value, other):
                found["Out[%s]" % number] = value
        return found

    # The magics.

    def line(self, words):
        """%nilo"""
        words = words.strip()
        head, _, rest = words.partition(" ")
        if not words:
            return self.now()
        if head == "vars" and (not rest.strip() or rest.strip().isdigit()):
            return self.vars(int(rest or 20))
        if words == "diff":
            return self.diff()
        if words in ("help", "?", "-h", "--help"):
            return Answer(_HELP.splitlines())
        return self.cell("-q", words)

    def now(self):
        size, peak = resident(), _ask.status(b"VmHWM:") or 0
        lines = ["RSS %s · peak %s%s" % (text(size), text(peak), self.since(size))]
        document = _ask.ledger()
        if document:
            parts = sorted(document["parts"], key=lambda part: -part["bytes"])[:_TOP]
            told = " · ".join("%s %s" % (part["name"].replace("_", " "), text(part["bytes"])) for part in parts)
            lines.append(" made of  %s   → nilo where %d" % (told, os.getpid()))
        else:
            lines.append(" made of  cannot tell: %s" % unavailable())
        return Answer(lines, values={"rss_bytes": size, "peak_bytes": peak})

    def since(self, size):
        return " · %s since the last cell" % signed(size - self.last[1][0]) if self.last else ""

    def vars(self, top=20):
        """Each name by all that it holds; what larger ones hold as well is not added again."""
        values = self.values()
        sizes = sorted(((Walk().add(value).size(), name) for name, value in values.items()), key=lambda one: (-one[0], one[1]))
        walk = Walk()
        lines = ["%12s %12s  name" % ("holds", "adds")]
        for size, name in sizes[:top]:
            before = walk.total
            walk.add(values[name])
            added = walk.total - before
            lines.append("%12s %12s  %s (%s)" % (text(size), text(added), name, kind(values[name])))
        for _, name in sizes[top:]:
            walk.add(values[name])
        rest = " (%d more)" % (len(sizes) - top) if len(sizes) > top else ""
        lines.append("%12s %12s  all names together%s; RSS %s" % ("", text(walk.total), rest, text(resident())))
        return Answer(lines, values={name: int(size) for size, name in sizes})

    def diff(self):
        """What the last cell changed."""
        if self.last is None:
            return Answer(["no cell has run since %load_ext nilometer"])
        (size_before, before), (size_after, after) = self.last
        values = self.values()
        lines = ["RSS %s → %s (%s)" % (text(size_before), text(size_after), signed(size_after - size_before))]
        for word, names in (
            ("new", [name for name in after if name not in before]),
            ("changed", [name for name in after if name in before and after[name] != before[name]]),
        ):
            for name in names:
                held = text(Walk().add(values[name]).size()) if name in values else "gone since"
                lines.append(" %-8s %s (%s)" % (word, name, held))
        lines.extend(" gone     %s" % name for name in before if name not in after)
        return Answer(lines, values={"rss_bytes": size_after - size_before})

    def cell(self, words, code):
        """%%nilo"""
        kinds = Kinds() if "-q" not in words.split() else None
        before = resident()
        exact = _ask.peak(reset=True) is not None and (_ask.status(b"VmHWM:") or 0) <= before + (4 << 20)
        watcher = Watcher()
        result = self.shell.run_cell(code)
        points = watcher.end()
        after = resident()
        peak = max([_ask.status(b"VmHWM:") or 0 if exact else 0, before, after] + [size for _, size in points])
        method = "VmHWM" if exact else "sampled"
        lines = [
            "peak     %s (%s above the start; %s)" % (text(peak), signed(peak - before), method),
            " kept     %s · RSS %s → %s" % (signed(after - before), text(before), text(after)),
        ]
        if kinds is not None:
            lines.extend(kinds.lines())
        if not getattr(result, "success", True):
            lines.append(" the cell failed; figures are those until then")
        values = {"peak_bytes": peak - before, "kept_bytes": after - before}
        return Answer(lines, points, values)


def kind(value):
    module, name = type(value).__module__, type(value).__qualname__
    return name if module == "builtins" else "%s.%s" % (module, name)


def unavailable():
    return "the nilo command is not here: pip install nilometer" if _ask.binary() is None else "nilo may not look: nilo doctor"


class Kinds(object):
    """Kinds of object before and after, by two looks of ``nilo heap``."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="nilo-notebook-")
        self.before = _ask.snapshot(os.path.join(self.folder, "before.heap"))

    def lines(self):
        try:
            after = _ask.snapshot(os.path.join(self.folder, "after.heap"))
            if not self.before or not after:
                return [" kinds    cannot tell: %s" % unavailable()]
            _, out, _ = _ask.nilo(["heap", "diff", self.before, after, "--json"])
            rows = rows_of(json.loads(out))
            return [" kinds    " + " · ".join("%s %s (%+d)" % row for row in rows[:_TOP])] if rows else []
        except Exception:
            return [" kinds    cannot tell"]
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def rows_of(document):
    """(kind, growth, objects) of what grew."""
    found = []
    for row in document.get("rows", []):
        grown = row["bytes"] + row["payload_bytes"]
        if grown > 0:
            found.append((grown, row["kind"], row["count"]))
    return [(kind, signed(grown), count) for grown, kind, count in sorted(found, reverse=True)]


_loaded = {}


def load(shell):
    magics = Magics(shell)
    _loaded[id(shell)] = magics

    def nilo(line, cell=None):
        return magics.line(line) if cell is None else magics.cell(line, cell)

    shell.register_magic_function(nilo, magic_kind="line_cell", magic_name="nilo")
    shell.events.register("pre_run_cell", magics.before)
    shell.events.register("post_run_cell", magics.after)
    magics.before()


def unload(shell):
    magics = _loaded.pop(id(shell), None)
    if magics is not None:
        shell.events.unregister("pre_run_cell", magics.before)
        shell.events.unregister("post_run_cell", magics.after)
