"""The same model under Hugging Face's Trainer, which has the loop."""
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

import stage
import torch_loop


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x, labels):
        return {"loss": nn.functional.cross_entropy(self.layers(x), labels)}


class Rows(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        return {"x": self.x[row], "labels": self.y[row]}


class After(TrainerCallback):
    def __init__(self, after):
        self.after = after

    def on_step_end(self, args, state, control, **more):
        self.after(state.global_step)


class Training(torch_loop.Training):
    version = f"{transformers.__version__}, torch {torch.__version__}"

    def __init__(self):
        super().__init__()
        self.optimizer = None
        self.whole = Model(self.model)

    def drive(self, count, after):
        with tempfile.TemporaryDirectory() as folder:
            settings = TrainingArguments(folder, max_steps=count, per_device_train_batch_size=32, use_cpu=True, report_to=[],
                                         save_strategy="no", logging_strategy="no", disable_tqdm=True)
            trainer = Trainer(self.whole, settings, train_dataset=Rows(self.x, self.y), callbacks=[After(after)])
            trainer.train()
        self.optimizer = trainer.optimizer.optimizer

    def pad(self):
        with torch.no_grad():
            self.model(self.x)


if __name__ == "__main__":
    stage.play(Training)
