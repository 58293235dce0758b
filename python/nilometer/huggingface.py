"""``Trainer(callbacks=[nilometer.huggingface.Callback()])``: steps, epochs, and memory in the trainer's own logs."""

from transformers import TrainerCallback

import nilometer
from nilometer._forward import figures


class Callback(TrainerCallback):
    def on_step_begin(self, args, state, control, **others):
        nilometer.step(state.global_step)

    def on_epoch_begin(self, args, state, control, **others):
        nilometer.note("epoch %d" % int(state.epoch or 0))

    def on_evaluate(self, args, state, control, **others):
        nilometer.note("evaluated")

    def on_save(self, args, state, control, **others):
        nilometer.note("saved")

    def on_log(self, args, state, control, logs=None, **others):
        if logs is not None and nilometer.is_recorded():
            logs.update(figures())
