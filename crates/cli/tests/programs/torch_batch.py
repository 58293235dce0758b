"""torch_batch.py BATCH: a training whose tensors are all large enough to be recorded one by one; prints its own truth.

Three layers of 512 × 512, an example is 2 KiB in each; the peak is where the way back begins, with every activation there."""
import os
import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
batch, width = int(sys.argv[1]), 512
layers = [layer for _ in range(3) for layer in (nn.Linear(width, width, bias=False), nn.ReLU())]
model = nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
saved = {}


def keep(tensor):
    storage = tensor.untyped_storage()
    saved[storage.data_ptr()] = storage.nbytes()
    return tensor


marks = open(os.environ["NILO_MARKS"], "a", buffering=1)
for step in range(3):
    marks.write(f"step {step}\n")
    optimizer.zero_grad()
    data = torch.randn(batch, width)
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(data).square().mean()
    for tensor in [data, *model.parameters()]:
        saved.pop(tensor.untyped_storage().data_ptr(), None)
    loss.backward()
    optimizer.step()

print("parameters", sum(p.untyped_storage().nbytes() for p in model.parameters()))
print("state", sum(v.untyped_storage().nbytes() for s in optimizer.state.values() for v in s.values()))
print("saved", sum(saved.values()))
