"""``pytest --nilo``: limits on the memory of tests, judged by every allocation that they make.

The tests run in a process that the tracker was preloaded into, so pytest is started anew under ``nilo run --allocs=deep``;
workers of pytest-xdist are its children and are tracked with it. Each test body is a window: what is born in it
counts, whatever was there before. The one invariant: a test without a limit is never failed by this.
"""

import gc
import json
import os
import sys
import tempfile
import time

import pytest

from . import _ask
from ._size import text

_UNITS = {"B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS.update({"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40})
_UNITS.update({"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40})
_PATIENCE = 30.0
_SITES = 8


def parse_size(words):
    """``24 MB`` is 24,000,000; ``24 MiB`` and ``24M`` are 24 x 2**20."""
    if isinstance(words, (int, float)):
        return int(words)
    stripped = str(words).strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = stripped[len(number) :].strip().upper() or "B"
    if unit not in _UNITS:
        raise ValueError("no size: %r (use for example '24 MB' or '1 KiB')" % (words,))
    return int(float(number) * _UNITS[unit])


class Limit(object):
    """Bytes, and how they were written."""

    def __init__(self, words):
        self.bytes = parse_size(words)
        self.words = words if isinstance(words, str) else text(self.bytes)


class Window(object):
    """Asks the recording about a stretch of this process."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="nilo-pytest-")
        self.asked = 0
        self.pid = os.getpid()

    def ask(self, act, top=0):
        """The answer, or ``None``."""
        if os.getpid() != self.pid:
            return None  # a fork of the test
        self.asked += 1
        path = os.path.join(self.folder, "%d.json" % self.asked)
        request = {"do": "window", "pid": self.pid, "act": act, "top": top, "path": path}
        answer = _ask.control(request)
        if not answer or "error" in answer:
            return None
        end = time.monotonic() + _PATIENCE
        while not os.path.exists(path):
            if time.monotonic() > end:
                return None
            time.sleep(0.0003)
        with open(path) as file:
            told = json.load(file)
        os.unlink(path)
        return None if "error" in told else told


def pytest_addoption(parser):
    group = parser.getgroup("nilometer", "memory, by nilo")
    group.addoption("--nilo", action="store_true", help="judge limit_memory and limit_leaks, tell the peak of each test")
    group.addoption("--nilo-top", type=int, default=5, metavar="N", help="tests with the highest peaks to list [5]")
    group.addoption("--nilo-mode", choices=("all", "deep"), default="deep", help="deep: Python's own allocator too [deep]")
    group.addoption("--nilo-limit", default=None, metavar="SIZE", help="a limit_memory for every test without one")
    group.addoption("--nilo-run", default=None, metavar="DIR", help="keep the recording there, for nilo report --allocs")
    parser.addini("nilo", "as if --nilo were given", type="bool", default=False)


def _is_wanted(config):
    return config.getoption("nilo", False) or config.getini("nilo")


def _is_worker():
    return "PYTEST_XDIST_WORKER" in os.environ


def _is_tracked():
    return "nilo-tracker" in os.environ.get("LD_PRELOAD", "") and bool(os.environ.get("NILO_CONTROL"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    """Starts anew under ``nilo`` before anything of the project is imported: a library cannot be preloaded later."""
    options = early_config.known_args_namespace
    wanted = getattr(options, "nilo", False) or early_config.getini("nilo")
    if not wanted or _is_tracked() or _is_worker():
        return
    if os.environ.get("NILO_PYTEST") == str(os.getppid()):
        raise pytest.UsageError("--nilo: this Python does not take the tracker; see: nilo doctor")
    nilo = _ask.binary()
    if nilo is None:
        raise pytest.UsageError("--nilo needs the nilo command: pip install nilometer")
    capture = early_config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # the streams as they were
    place = getattr(options, "nilo_run", None) or _own_place()
    mode = getattr(options, "nilo_mode", "deep")
    words = [nilo, "run", "-q", "--no-ledger", "--allocs=" + mode, "--force", "-o", place, "--"]
    os.environ["NILO_PYTEST"] = str(os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(nilo, words + _same_again())


def _own_place():
    """A run directory in a private folder. Those of earlier sessions that have ended are removed."""
    import shutil

    folder = os.path.join(tempfile.gettempdir(), "nilo-pytest-%d" % os.getuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        folder = tempfile.mkdtemp(prefix="nilo-pytest-")
    for name in os.listdir(folder):
        if not os.path.exists("/proc/" + name.split(".")[0]):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    return os.path.join(folder, "%d.nilo" % os.getpid())


def _same_again():
    """The command line of this process."""
    if hasattr(sys, "orig_argv"):
        return [sys.executable] + sys.orig_argv[1:]
    if os.path.basename(sys.argv[0]) == "__main__.py":
        return [sys.executable, "-m", "pytest"] + sys.argv[1:]
    return [sys.executable] + sys.argv


def pytest_configure(config):
    rival = config.pluginmanager.hasplugin("memray") or config.pluginmanager.hasplugin("pytest_memray")
    if not rival:
        config.addinivalue_line(
            "markers", "limit_memory(size): fail when the test has more than this at once, for example '24 MB'"
        )
        config.addinivalue_line(
            "markers",
            "limit_leaks(size, warmups=0): fail when one place leaves more than this behind, for example '1 KB'",
        )
    plugin = Judge(config, rival) if _is_wanted(config) and _is_tracked() else Bystander(rival)
    config.pluginmanager.register(plugin, "nilometer-judge")


class Bystander(object):
    """Nothing is tracked: says which limits nobody judges."""

    def __init__(self, rival):
        self.rival = rival
        self.unjudged = 0

    def pytest_collection_modifyitems(self, items):
        if not self.rival:
            marks = ("limit_memory", "limit_leaks")
            self.unjudged = sum(1 for item in items if any(item.get_closest_marker(mark) for mark in marks))

    def pytest_terminal_summary(self, terminalreporter):
        if self.unjudged:
            terminalreporter.write_line("nilo: %d tests have memory limits, not judged: pytest --nilo" % self.unjudged)


class Judge(object):
    """Judges and tells."""

    def __init__(self, config, rival):
        self.config = config
        self.rival = rival
        self.window = Window()
        first = self.window.ask("open") or {}  # what asking needs is imported and there before the first test
        self.window.ask("close")
        self.mode = first.get("mode", "not at all")
        self.peaks = {}
        self.lost = 0
        limit = config.getoption("nilo_limit")
        self.limit = Limit(limit) if limit else None

    def pytest_report_header(self, config):
        if not self.is_exact():
            return "nilo: allocations are tracked %s, so no limit is judged: run pytest --nilo by itself" % self.mode
        who = "; limits are judged by pytest-memray" if self.rival else ""
        return "nilo: every allocation is tracked (%s)%s" % (self.mode, who)

    def is_exact(self):
        """A recording around us may only sample."""
        return self.mode in ("all", "deep")

    def _limits(self, item):
        """(memory, leaks, warmups); none where nothing is asked."""
        memory, leaks = item.get_closest_marker("limit_memory"), item.get_closest_marker("limit_leaks")
        if not self.is_exact() or self.rival and (memory or leaks):
            return None, None, 0
        most = Limit(memory.args[0]) if memory and memory.args else self.limit
        left = Limit(leaks.args[0]) if leaks and leaks.args else None
        warmups = int(leaks.kwargs.get("warmups", 0)) if leaks else 0
        return most, left, warmups

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        try:
            most, left, warmups = self._limits(item)
        except ValueError as problem:
            outcome = yield
            force(outcome, str(problem))
            return
        if left is not None and warmups:
            warm_up(item, warmups)
        gc.collect()
        opened = self.window.ask("open")
        outcome = yield
        told = opened and self.window.ask("look")
        if not told:
            return
        item.user_properties.append(("nilo_peak_bytes", told["peak_bytes"]))
        self.lost = told.get("lost_events", 0)
        failure = outcome.excinfo is None and self._judge(told, most, left)
        self.window.ask("close")
        if failure:
            force(outcome, failure)

    def _judge(self, told, most, left):
        """What is said of a test that broke a limit."""
        if most is not None and told["peak_bytes"] > most.bytes:
            said = "the test had %s at once, its limit is %s" % (text(told["peak_bytes"]), most.words)
            return render(said, self._sites("peak_bytes"), "peak_bytes")
        if left is None or told["live_bytes"] <= left.bytes:
            return None
        gc.collect()  # what only circles held is no leak
        sites = [site for site in self._sites("live_bytes") if site["live_bytes"] > left.bytes]
        if not sites:
            return None
        said = "the test left %s behind at one place, its limit is %s" % (text(sites[0]["live_bytes"]), left.words)
        return render(said, sites, "live_bytes")

    def _sites(self, order):
        """By line of Python: stacks that differ only outside it are one place."""
        told = self.window.ask("look", top=100) or {"sites": []}
        sites = merge([site for site in told["sites"] if not is_ours(site)])
        return sorted((site for site in sites if site[order]), key=lambda site: -site[order])

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        """On the controller of xdist too: what workers told comes with their reports."""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "nilo_peak_bytes":
                    self.peaks[report.nodeid] = max(value, self.peaks.get(report.nodeid, 0))

    def pytest_terminal_summary(self, terminalreporter):
        top = self.config.getoption("nilo_top")
        if not self.peaks or top <= 0:
            return
        terminalreporter.section("memory, highest first (nilo)")
        for name, peak in sorted(self.peaks.items(), key=lambda one: (-one[1], one[0]))[:top]:
            terminalreporter.write_line("%10s  %s" % (text(peak), name))
        if self.lost:
            terminalreporter.write_line("%d events were lost: figures may be wrong" % self.lost)

    def pytest_unconfigure(self, config):
        import shutil

        shutil.rmtree(self.window.folder, ignore_errors=True)


def warm_up(item, times):
    """Runs a test's body, so that what it does only once is no leak."""
    if hasattr(item, "funcargs") and hasattr(item, "_fixtureinfo"):
        for _ in range(times):
            item.obj(**{name: item.funcargs[name] for name in item._fixtureinfo.argnames})


def force(outcome, words):
    """The test fails with these words."""
    failure = pytest.fail.Exception(words, pytrace=False)
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(failure)
    else:
        outcome._excinfo = (type(failure), failure, None)  # pluggy before 1.1


def is_ours(site):
    """Allocations of the window itself."""
    here = os.path.dirname(os.path.abspath(__file__))
    return any(frame["file"].startswith(here) and frame["function"].endswith("ask") for frame in site["stack"])


def place_of(site):
    for frame in site["stack"]:
        if frame["file"] and not frame["file"].startswith("<frozen"):
            return "%s:%d" % (frame["file"], frame["line"]), frame["function"]
    return "native code", site["source"]


def merge(sites):
    merged = {}
    for site in sites:
        known = merged.setdefault(place_of(site), dict(site, peak_bytes=0, live_bytes=0, count=0))
        for name in ("peak_bytes", "live_bytes", "count"):
            known[name] += site[name]
    return list(merged.values())


def render(said, sites, order):
    """The verdict, and where: places with at least a hundredth of the largest."""
    if not sites:
        return said
    place, function = place_of(sites[0])
    lines = ["%s; most of it at %s (%s)" % (said, place, function), ""]
    for site in [site for site in sites if site[order] * 100 >= sites[0][order]][:_SITES]:
        place, function = place_of(site)
        lines.append("%10s  %s (%s), %d allocations" % (text(site[order]), place, function, site["count"]))
        lines.extend("%14s %s:%d (%s)" % ("from", *caller) for caller in callers_of(site))
    return "\n".join(lines)


def callers_of(site):
    """The next frames outwards, up to where the test was called."""
    frames = [(frame["file"], frame["line"], frame["function"]) for frame in site["stack"]]
    end = [at for at, frame in enumerate(frames) if "/_pytest/" in frame[0] or "/unittest/" in frame[0]]
    return frames[1 : end[0] if end else 4][:4]
