"""A small network after one step, and its truth: bytes of the parameters with their gradients, each buffer once."""
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(4)])
        self.layers[1].weight = self.layers[0].weight  # tied: one buffer, two layers

    def forward(self, values):
        for layer in self.layers:
            values = torch.tanh(layer(values))
        return values


model = Net()
model(torch.ones(8, 64)).sum().backward()
buffers = {}
for parameter in model.parameters():
    for tensor in (parameter, parameter.grad):
        buffers[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
sys.stdout.write("buffers %d\n" % len(buffers))
sys.stdout.write("bytes %d\n" % sum(buffers.values()))
sys.stdout.write("address %d\n" % id(model.layers[3].weight))
sys.stdout.flush()
sys.stdin.read()
