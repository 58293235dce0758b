"""``Trainer(callbacks=[nilometer.lightning.Callback()])``: steps, phases, and memory beside the logged metrics."""

import nilometer
from nilometer._forward import figures

try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base


class Callback(_Base):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        nilometer.step(trainer.global_step)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.logger and nilometer.is_recorded():
            trainer.logger.log_metrics(figures(), step=trainer.global_step)

    def on_train_epoch_start(self, trainer, module):
        nilometer.note("epoch %d" % trainer.current_epoch)

    def on_validation_start(self, trainer, module):
        self._validation = nilometer.phase("validation").__enter__()

    def on_validation_end(self, trainer, module):
        self._validation.__exit__(None, None, None)
