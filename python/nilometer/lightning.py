"""``Trainer(callbacks=[nilometer.lightning.Callback()])``: steps, phases, and memory beside the logged metrics."""
import nilometer
from nilometer._forward import figures
try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base


class Callback(_Base):
    _step = None

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step != self._step:  # with accumulated gradients a step is several batches
            self._step = trainer.global_step
            nilometer.step(self._step)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        due = trainer.global_step != self._step and trainer.global_step % trainer.log_every_n_steps == 0
        if due and trainer.logger and nilometer.is_recorded():
            trainer.logger.log_metrics(figures(), step=self._step)

    def on_train_epoch_start(self, trainer, module):
        nilometer.note("epoch %d" % trainer.current_epoch)

    def on_validation_start(self, trainer, module):
        self._validation = nilometer.phase("validation").__enter__()

    def on_validation_end(self, trainer, module):
        self._validation.__exit__(None, None, None)
