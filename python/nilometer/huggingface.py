"""``Trainer(callbacks=[nilometer.huggingface.Callback()])``: steps, epochs, and memory in the trainer's own logs."""

import sys

from transformers import TrainerCallback

import nilometer
from nilometer._forward import figures


class Callback(TrainerCallback):
    def on_train_begin(self, args, state, control, **others):
        handler = sys._getframe(1).f_locals.get("self")  # asks in this order, its own reporters before us
        if self in getattr(handler, "callbacks", []):
            handler.callbacks.remove(self)
            handler.callbacks.insert(0, self)

    def on_step_begin(self, args, state, control, **others):
        nilometer.step(state.global_step)

    def on_epoch_begin(self, args, state, control, **others):
        nilometer.note("epoch %d" % int(state.epoch or 0))

    def on_log(self, args, state, control, logs=None, **others):
        if logs is not None and nilometer.is_recorded():
            logs.update(figures())
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(figures())
