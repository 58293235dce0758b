"""A model with a named optimizer after some steps: tells the bytes of its weights, gradients and optimizer state."""
import sys

import torch

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(300, 700), torch.nn.Tanh(), torch.nn.Linear(700, 30))


class Own(torch.optim.SGD):
    """A class of the program's, as users write them."""


make = {
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=1e-3),
    "plain": lambda weights: torch.optim.SGD(weights, lr=1e-3),
    "own": lambda weights: Own(weights, lr=1e-3, momentum=0.9),
}[sys.argv[1]]
optimizer = make(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(4, 300)).sum().backward()
    optimizer.step()


def held(tensors):
    unique = {tensor.data_ptr(): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in unique.values())


weights = list(model.parameters())
state = [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
print("weights", held(weights))
print("gradients", held([weight.grad for weight in weights]))
print("state", held(state), flush=True)
sys.stdin.read()
