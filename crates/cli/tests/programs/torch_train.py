"""torch_train.py KIND OPTIMIZER [WORD…]: a small training; prints its own truth about its memory.

KIND: mlp, cnn, lstm, attention. OPTIMIZER: adamw, sgd, momentum. Words: keep (zero_grad keeps the tensors), accumulate,
checkpoint, end (zero_grad at the end of a step).
"""
import os
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
kind, optimizer, words = sys.argv[1], sys.argv[2], sys.argv[3:]
STEPS = 6


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class Mlp(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(500, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x).sum(1)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in words else block(x)
        return self.head(x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(width, 4, batch_first=True), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.1), nn.Linear(1024, 10))


def batch():
    if kind == "mlp":
        return torch.randint(0, 500, (256, 8))
    if kind == "cnn":
        return torch.randn(32, 3, 32, 32)
    return torch.randn(32, 24, 64)


def storages(tensors):
    return {t.untyped_storage().data_ptr() if hasattr(t, "untyped_storage") else t.storage().data_ptr():
            (t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()).nbytes() for t in tensors}


model = {"mlp": Mlp, "cnn": cnn, "lstm": Lstm, "attention": Attention}[kind]()
optim = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
}[optimizer](model.parameters())
loss_of = nn.CrossEntropyLoss()
to_none = "keep" not in words
saved = {}
micro = 2 if "accumulate" in words else 1
own = storages(list(model.parameters()) + list(model.buffers()))


def pack(tensor):
    saved.update(storages([tensor]))
    return tensor


def step():
    if "end" not in words:
        optim.zero_grad(set_to_none=to_none)
    for _ in range(micro):
        x, y = batch(), torch.randint(0, 10, (256 if kind == "mlp" else 32,))
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = loss_of(model(x), y)
        for tensor in (x, y):
            for pointer in storages([tensor]):
                saved.pop(pointer, None)
        loss.backward()
    optim.step()
    gradients = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
    if "end" in words:
        optim.zero_grad(set_to_none=to_none)
    return gradients


marks = os.environ.get("NILO_MARKS")
for number in range(STEPS):
    gradients = step()
    if marks:
        with open(marks, "a") as out:
            out.write(f"step {number + 1}\n")

state = [v for s in optim.state.values() for v in s.values() if torch.is_tensor(v)]
print("parameters", sum(own.values()))
print("gradients", gradients)
print("state", sum(storages(state).values()))
print("saved", sum(size for pointer, size in saved.items() if pointer not in own))
