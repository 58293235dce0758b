"""work.py NAME SIZE: one of the Python workloads. Prints the CPU and wall seconds of the work and the high water."""
import json
import sys
import time


def churn(size):
    """Dicts, lists, strings and small objects, ten calls deep: nearly all in Python's own allocator."""

    class Node:
        __slots__ = ("left", "right", "name")

        def __init__(self, left, right, name):
            self.left, self.right, self.name = left, right, name

    def leaf(n):
        return {"k%d" % (n & 63): [n, n + 1, str(n)], "node": Node(n, (n, n), "x" * (n & 127))}

    def middle(n, kept):
        kept[n & 1023] = made = leaf(n)
        return len(made)

    def outer(depth, kept):
        return outer(depth - 1, kept) if depth else sum(middle(n, kept) for n in range(size))

    return lambda: outer(10, [None] * 1024)


def arrays(size):
    """A small network in numpy: many small temporaries."""
    import numpy

    random = numpy.random.default_rng(0)
    layers = [(random.standard_normal((32, 32)), random.standard_normal(32)) for _ in range(4)]
    start = random.standard_normal((8, 32))

    def forward(x):
        for weight, bias in layers:
            x = x @ weight + bias
            x = numpy.maximum(x, 0.0) * 0.5 + numpy.tanh(x)
        return x

    return lambda: sum(float(((forward(start) - start) ** 2).mean()) for _ in range(size))


def pipeline(size):
    """Scaling, principal components, trees and a linear model, cross-validated."""
    import numpy
    from sklearn.decomposition import PCA
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = numpy.random.default_rng(0)
    x = random.standard_normal((2000, 40))
    y = (x[:, :5].sum(axis=1) + random.standard_normal(2000) > 0).astype(int)
    linear = make_pipeline(StandardScaler(), PCA(20), LogisticRegression(max_iter=200))
    trees = make_pipeline(StandardScaler(), RandomForestClassifier(30, random_state=0, n_jobs=1))

    def run():
        for _ in range(size):
            cross_val_score(linear, x, y, cv=5)
            cross_val_score(trees, x, y, cv=3)

    return run


def training(model, batch):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x, y = batch()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def cnn(size):
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )
    step = training(model, lambda: (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))))
    step()
    return lambda: [step() for _ in range(size)]


def transformer(size):
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(512, 64)
            layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 3)
            self.head = nn.Linear(64, 512)

        def forward(self, x):
            return self.head(self.encoder(self.embedding(x))).flatten(0, 1)

    def batch():
        x = torch.randint(0, 512, (8, 32))
        return x, x.flatten()

    step = training(Model(), batch)
    step()
    return lambda: [step() for _ in range(size)]


work = globals()[sys.argv[1]](int(sys.argv[2]))
wall, cpu = time.perf_counter(), time.process_time()
work()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
with open("/proc/self/status") as status:  # getrusage's mark begins with that of whoever started us
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"cpu_s": cpu, "wall_s": wall, "peak_kib": peak}), flush=True)
