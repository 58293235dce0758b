# Put in front of PYTHONPATH by `nilo run --steps torch|keras|tqdm|sklearn|jax`. Takes itself out of the path, arms the
# hook where this Python is one that it knows, and hands over to the sitecustomize that would have run without it.
# This file must stay readable for any Python, 2.7 included: foreign ones only hand over.
import sys


def _leave():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    return here


def _arm(here):
    import os

    path = os.path.join(here, "nilo_steps.py")
    if sys.version_info < (3, 8) or sys.implementation.name != "cpython" or not os.environ.get("NILO_MARKS"):
        return
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("_nilo_steps", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.arm(os.environ.get("NILO_STEPS", ""))


def _hand_over():
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # the user's, the distribution's, or none
    except ImportError as problem:
        # Its own mistakes are shown as always: by site.
        if getattr(problem, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # The import that is going on must find one by this name.
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


_here = _leave()
try:
    _arm(_here)
except Exception:
    pass
_hand_over()
