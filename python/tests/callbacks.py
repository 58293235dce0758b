"""Callbacks and forwarding, with stand-ins for the trainers and the keepers of metrics. Under `nilo run`."""
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


class Base(object):
    pass


module("lightning")
module("lightning.pytorch", Callback=Base)
module("transformers", TrainerCallback=Base)
module("keras", callbacks=types.SimpleNamespace(Callback=Base))

import nilometer.huggingface
import nilometer.keras
import nilometer.lightning

for short in ("lightning", "huggingface", "keras"):
    path = os.path.join(os.path.dirname(nilometer.__file__), short + ".py")
    assert len(open(path).read().splitlines()) <= 30, short

logged = []
logger = types.SimpleNamespace(log_metrics=lambda values, step: logged.append((step, values)))
trainer = types.SimpleNamespace(global_step=0, current_epoch=2, logger=logger)
callback = nilometer.lightning.Callback()
callback.on_train_epoch_start(trainer, None)
for step in range(3):
    trainer.global_step = step
    callback.on_train_batch_start(trainer, None, None, step)
    callback.on_train_batch_end(trainer, None, None, None, step)
callback.on_validation_start(trainer, None)
callback.on_validation_end(trainer, None)
assert [step for step, _ in logged] == [0, 1, 2]
values = logged[-1][1]
assert values["nilo/peak_mib"] >= values["nilo/rss_mib"] > 1, values

state = types.SimpleNamespace(global_step=3, epoch=1.5)
callback = nilometer.huggingface.Callback()
callback.on_step_begin(None, state, None, model=None)
callback.on_epoch_begin(None, state, None)
logs = {"loss": 1.0}
callback.on_log(None, state, None, logs=logs)
assert logs["loss"] == 1.0 and logs["nilo/rss_mib"] > 1
callback.on_log(None, state, None)

callback = nilometer.keras.Callback()
callback.on_epoch_begin(0)
callback.on_train_batch_begin(0)
logs = {}
callback.on_epoch_end(0, logs)
assert logs["nilo/peak_mib"] > 1

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
