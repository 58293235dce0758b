"""Memory beside the metrics that are kept already: Weights & Biases, MLflow, TensorBoard.

Nothing is imported for it: what the training has not loaded is not active. At most once a second, so that a slow server
costs little.
"""

import sys
import time

from . import _ask, _marks

EVERY_S = 1.0
_last = None
_writers = []


def start(writer=None):
    if writer is not None and writer not in _writers:
        _writers.append(writer)
    _marks.follow(follow)


def follow(step):
    """Called after each step."""
    global _last
    now = time.monotonic()
    if _last is not None and now - _last < EVERY_S:
        return
    _last = now
    send(step, figures())


def figures():
    resident, highest = _ask.status(b"VmRSS:"), _ask.status(b"VmHWM:")
    found = {"nilo/rss_mib": resident, "nilo/peak_mib": highest}
    return {name: size / 2.0**20 for name, size in found.items() if size is not None}


def send(step, values):
    for give in (_to_wandb, _to_mlflow, _to_writers):
        try:
            give(step, values)
        except Exception:
            pass


def _to_wandb(step, values):
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:
        run.log(dict(values), commit=False)  # goes with the training's next row, whatever its number


def _to_mlflow(step, values):
    mlflow = sys.modules.get("mlflow")
    if mlflow is not None and mlflow.active_run() is not None:
        mlflow.log_metrics(dict(values), step=step)


def _to_writers(step, values):
    for writer in list(_writers):
        for name, value in values.items():
            writer.add_scalar(name, value, step)
