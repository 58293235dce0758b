"""The same model under Lightning's Trainer, which has the loop."""
import logging

import lightning
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn

import stage
import torch_loop


class Model(LightningModule):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def training_step(self, batch, number):
        x, y = batch
        return nn.functional.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.layers.parameters())


class After(lightning.pytorch.Callback):
    def __init__(self, after):
        self.after = after

    def on_train_batch_end(self, trainer, *more):
        self.after(trainer.global_step)


class Training(torch_loop.Training):
    version = f"{lightning.__version__}, torch {torch.__version__}"

    def __init__(self):
        super().__init__()
        self.optimizer = None
        self.whole = Model(self.model)

    def drive(self, count, after):
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(self.x, self.y), batch_size=32)
        trainer = Trainer(accelerator="cpu", max_steps=count, max_epochs=count, logger=False, enable_checkpointing=False,
                          enable_progress_bar=False, enable_model_summary=False, callbacks=[After(after)])
        trainer.fit(self.whole, rows)
        self.optimizer = trainer.optimizers[0]

    def pad(self):
        with torch.no_grad():
            self.model(self.x)


if __name__ == "__main__":
    stage.play(Training)
