"""A training of fixed work, in numpy or torch; prints the processor seconds and the seconds that its steps took.

training.py KIND STEPS
"""
import sys
import time

KIND, STEPS = sys.argv[1], int(sys.argv[2])

if KIND == "numpy":
    import numpy

    generator = numpy.random.default_rng(0)
    data = generator.standard_normal((20_000, 784), dtype=numpy.float32)
    labels = generator.integers(0, 10, 20_000)
    first = generator.standard_normal((784, 512), dtype=numpy.float32) * 0.05
    second = generator.standard_normal((512, 10), dtype=numpy.float32) * 0.05

    def step(number):
        rows = generator.integers(0, len(data), 512)
        x, y = data[rows], labels[rows]
        hidden = numpy.maximum(x @ first, 0)
        scores = hidden @ second
        scores -= scores.max(1, keepdims=True)
        share = numpy.exp(scores)
        share /= share.sum(1, keepdims=True)
        share[numpy.arange(len(y)), y] -= 1
        back = share @ second.T * (hidden > 0)
        second[:] -= 0.01 / len(y) * (hidden.T @ share)
        first[:] -= 0.01 / len(y) * (x.T @ back)
else:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = torch.randn(5_000, 3, 32, 32)
    labels = torch.randint(0, 10, (5_000,))
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters())

    def step(number):
        rows = torch.randint(0, len(data), (128,))
        loss = torch.nn.functional.cross_entropy(model(data[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for number in range(5):
    step(number)
begin, cpu_begin = time.perf_counter(), time.process_time()
for number in range(STEPS):
    step(number)
print("seconds", time.process_time() - cpu_begin, time.perf_counter() - begin)
