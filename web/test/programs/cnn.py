"""A small convolutional network trained on noise, with its phases and steps marked."""

import os

import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(2)
marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)
marks.write("phase load\n")
images, labels = torch.randn(256, 3, 64, 64), torch.randint(0, 10, (256,))
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16 * 16, 10),
)
optimizer = torch.optim.Adam(net.parameters())
marks.write("phase train\n")
for step in range(24):
    marks.write(f"step {step}\n")
    batch = torch.randint(0, 256, (32,))
    loss = nn.functional.cross_entropy(net(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
marks.write("phase evaluate\n")
with torch.no_grad():
    print(float((net(images[:64]).argmax(1) == labels[:64]).float().mean()))
