"""Marks: one line of text for each, appended to the file that ``nilo`` names in ``$NILO_MARKS``.

The one invariant: nothing here raises, and nothing is kept open. The file is opened for each mark, so that threads,
forks and programs that close all their descriptors cannot make a mark land anywhere else.
"""

import itertools
import os
import threading
import time

LONGEST = 1000
_path = os.environ.get("NILO_MARKS")
PATH = os.path.abspath(_path) if _path else None
_FLAGS = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_numbers = itertools.count(1)
_local = threading.local()


def _plain(text):
    """One line that is not too long."""
    return " ".join(str(text).split())[:LONGEST]


def write(line):
    """Appends one mark with its process and time; whatever goes wrong, the training goes on."""
    try:
        stamped = "%s pid=%d ns=%d\n" % (line, os.getpid(), time.monotonic_ns())
        descriptor = os.open(PATH, _FLAGS)
        try:
            os.write(descriptor, stamped.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except Exception:
        pass


def step(number=None):
    """A step begins. Without a number, the next one."""
    try:
        number = next(_numbers) if number is None else int(number)
        if number >= 0:
            write("step %d" % number)
            if _followers:
                _follow(number)
    except Exception:
        pass


def note(text):
    """A remark at this moment."""
    try:
        text = _plain(text)
        if text:
            write("note " + text)
    except Exception:
        pass


def _names():
    try:
        return _local.names
    except AttributeError:
        _local.names = []
        return _local.names


def begin_phase(name):
    try:
        name = _plain(name)
        _names().append(name)
        if name:
            write("phase " + name)
    except Exception:
        pass


def end_phase():
    """Back to the phase around this one; ``-`` is none."""
    try:
        names = _names()
        if names:
            names.pop()
        write("phase " + (names[-1] if names and names[-1] else "-"))
    except Exception:
        pass


_followers = []


def follow(follower):
    """Calls ``follower(number)`` after each step."""
    if follower not in _followers:
        _followers.append(follower)


def _follow(number):
    for follower in list(_followers):
        try:
            follower(number)
        except Exception:
            pass
