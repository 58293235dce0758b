"""A training loop of torch: three layers and AdamW."""
import gc

import torch
from torch import nn

import stage


class Training(stage.Loop):
    version = torch.__version__
    kind = "Parameter"

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.x, self.y = torch.randn(32, 512), torch.randint(0, 10, (32,))

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def tensors(self):
        parameters = list(self.model.parameters())
        state = [value for of in self.optimizer.state.values() for value in of.values() if torch.is_tensor(value)]
        return parameters, [p.grad for p in parameters if p.grad is not None], state, [self.x, self.y]

    def buffers(self):
        storages = [tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()
                    for group in self.tensors() for tensor in group]
        return [(storage.data_ptr(), storage.nbytes()) for storage in storages]

    def count(self):
        return sum(type(it) is nn.Parameter for it in gc.get_objects())

    def categories(self):
        parameters, _, state, _ = (sum(t.numel() * t.element_size() for t in group) for group in self.tensors())
        # A gradient is as large as its parameter; trainers throw it away at the end of a step.
        return {"parameters": parameters, "gradients": parameters, "optimizer state": state}

    array = staticmethod(lambda count: torch.ones(count))
    nbytes = staticmethod(lambda tensor: tensor.numel() * tensor.element_size())
    touch = staticmethod(lambda tensor: tensor.sum())


if __name__ == "__main__":
    stage.play(Training)
