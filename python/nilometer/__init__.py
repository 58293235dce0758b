"""Nilometer inside a training: say where its steps and phases are, ask how high its memory rose.

Under ``nilo run`` the marks go to the recording. Otherwise ``step``, ``phase`` and ``note`` do nothing, in less than a
microsecond, so they can stay in the code. Nothing here raises into the training.

    import nilometer

    for i, batch in enumerate(loader):
        nilometer.step(i)
        with nilometer.phase("forward"):
            ...
"""

import functools

from . import _marks

__version__ = "0.1.0"
__all__ = [
    "step",
    "phase",
    "note",
    "snapshot",
    "peak",
    "ledger",
    "sizeof",
    "forward_to",
    "is_recorded",
]


class _Phase(object):
    """A named stretch: ``with phase("forward"):`` or ``@phase("forward")``."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        _marks.begin_phase(self._name)
        return self

    def __exit__(self, *problem):
        _marks.end_phase()

    def __call__(self, function):
        name = self._name
        if _is_coroutine(function):

            @functools.wraps(function)
            async def awaited(*args, **kwargs):
                with phase(name):
                    return await function(*args, **kwargs)

            return awaited

        @functools.wraps(function)
        def called(*args, **kwargs):
            with phase(name):
                return function(*args, **kwargs)

        return called


def _is_coroutine(function):
    import inspect

    return inspect.iscoroutinefunction(function)


class _NoPhase(object):
    """The same where nobody listens. A decorated function is the function itself."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        return None

    def __call__(self, function):
        return function


_no_phase = _NoPhase()


def _step_unheard(number=None):
    """A step begins. Nobody listens: start the training with ``nilo run``."""


def _note_unheard(text=None):
    """A remark at this moment. Nobody listens: start the training with ``nilo run``."""


def _phase_unheard(name=None):
    """A named stretch. Nobody listens: start the training with ``nilo run``."""
    return _no_phase


if _marks.PATH:
    step, note, phase = _marks.step, _marks.note, _Phase
else:
    step, note, phase = _step_unheard, _note_unheard, _phase_unheard


def is_recorded():
    """True under ``nilo run``."""
    return _marks.PATH is not None


def peak(reset=False):
    """The most resident bytes that this process has had, since its start or since the last ``peak(reset=True)``.

    The kernel's own mark (VmHWM). A reset is done by the recording, after it has stored the mark. ``None`` where the kernel
    does not tell.
    """
    from . import _ask

    return _ask.peak(reset)


def ledger(frame=False):
    """What the resident memory of this process is made of now: the document of ``nilo where --json``, as a dict.

    With ``frame=True`` the lines as a pandas DataFrame. ``None`` where ``nilo`` is not there or may not look.
    """
    from . import _ask

    return _ask.ledger(frame)


def snapshot(path=None):
    """Stores every Python object of this process in a file for ``nilo heap`` and returns its path.

    Without a path it goes into the run directory, and does nothing where there is none.
    """
    from . import _ask

    return _ask.snapshot(path)


def sizeof(*objects):
    """Bytes of objects and of all that they hold, each object and each buffer once.

    The result is an ``int`` with ``payload`` (numbers of arrays and tensors) and ``objects`` (how many). Modules, classes and
    functions are not held by anybody.
    """
    from ._size import sizeof as measure

    return measure(*objects)


def forward_to(writer=None):
    """Sends memory to where metrics are kept already, at most once a second, with the steps.

    An active Weights & Biases or MLflow run is found by itself; a TensorBoard ``SummaryWriter`` is given.
    """
    from . import _forward

    _forward.start(writer)


def load_ipython_extension(shell):
    """``%load_ext nilometer``"""
    from . import notebook

    notebook.load(shell)


def unload_ipython_extension(shell):
    from . import notebook

    notebook.unload(shell)
