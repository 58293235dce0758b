"""training.py MINUTES: a small convolutional network trained for that long, four steps a second, with an evaluation every 200."""
import os
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.1), nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loss_of = nn.CrossEntropyLoss()
marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)
end = time.monotonic() + float(sys.argv[1]) * 60
step = 0
while time.monotonic() < end:
    begin = time.monotonic()
    step += 1
    marks.write(f"step {step}\n")
    data, truth = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    loss = loss_of(model(data), truth)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        marks.write("phase evaluation\n")
        model.eval()
        with torch.no_grad():
            print("step", step, "loss", float(loss_of(model(torch.randn(256, 3, 32, 32)), torch.randint(0, 10, (256,)))), flush=True)
        model.train()
        marks.write("phase -\n")
    time.sleep(max(0.0, begin + 0.25 - time.monotonic()))
