"""A small network trained by torch with Adam: torch_training.py BATCH [WIDTH]."""
import os
import sys

import torch

batch = int(sys.argv[1])
width = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
torch.manual_seed(1)
layers = [torch.nn.Linear(256, width), torch.nn.GELU()]
for _ in range(4):
    layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
network = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))
optimizer = torch.optim.Adam(network.parameters())
marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)
for step in range(6):
    marks.write(f"step {step}\n")
    loss = torch.nn.functional.cross_entropy(network(torch.randn(batch, 256)), torch.randint(0, 10, (batch,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
