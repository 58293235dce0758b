"""Forwarding to keepers of metrics that fail, are not active, or are asked too often: stand-ins. Under `nilo run`.

The real ones are in trainers.py.
"""
import os
import sys
import types

import nilometer
from nilometer import _forward


def module(name, **values):
    made = types.ModuleType(name)
    vars(made).update(values)
    sys.modules[name] = made
    return made


for short in ("lightning", "huggingface", "keras"):
    path = os.path.join(os.path.dirname(nilometer.__file__), short + ".py")
    assert len(open(path).read().splitlines()) <= 30, short

sent = []
module("wandb", run=types.SimpleNamespace(log=lambda values, commit: sent.append(("wandb", values, commit))))
broken = types.SimpleNamespace(add_scalar=lambda *_: 1 / 0)
writer = types.SimpleNamespace(add_scalar=lambda name, value, step: sent.append(("board", name, step)))
active = []
module(
    "mlflow",
    active_run=lambda: active[0] if active else None,
    log_metrics=lambda values, step: sent.append(("mlflow", values, step)),
)
nilometer.forward_to(broken)
nilometer.forward_to(writer)
nilometer.step(10)
assert ("wandb", "mlflow") != tuple(one[0] for one in sent), "no MLflow run is active"
assert [one[0] for one in sent] == ["wandb"], "a broken writer ends the turn of writers, nothing else"
_forward._writers.remove(broken)
_forward._last = None
active.append(object())
nilometer.step(11)
assert sorted({one[0] for one in sent[1:]}) == ["board", "mlflow", "wandb"], sent
count = len(sent)
nilometer.step(12)
assert len(sent) == count, "once a second"
assert all(one[2] is False for one in sent if one[0] == "wandb"), "the training's own row is not ended"
print("ok")
