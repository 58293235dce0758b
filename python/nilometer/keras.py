"""``model.fit(…, callbacks=[nilometer.keras.Callback()])``: steps and epochs, and memory in the epoch's logs."""

import itertools

import keras

import nilometer
from nilometer._forward import figures


class Callback(keras.callbacks.Callback):
    _steps = itertools.count()

    def on_train_batch_begin(self, batch, logs=None):
        nilometer.step(next(self._steps))

    def on_epoch_begin(self, epoch, logs=None):
        nilometer.note("epoch %d" % epoch)

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None and nilometer.is_recorded():
            logs.update(figures())
