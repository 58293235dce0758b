"""mxnet_train.py: a small training with Gluon; prints its own truth about its memory."""
import os

import mxnet as mx
from mxnet import autograd, gluon

mx.random.seed(0)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Conv2D(32, 3, padding=1, in_channels=3, activation="relu"), gluon.nn.MaxPool2D(2), gluon.nn.Flatten(),
        gluon.nn.Dense(256, in_units=32 * 16 * 16, activation="relu"), gluon.nn.Dense(10, in_units=256))
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
marks = os.environ.get("NILO_MARKS")
for number in range(8):
    x, y = mx.nd.random.normal(shape=(64, 3, 32, 32)), mx.nd.zeros(64)
    with autograd.record():
        loss = loss_of(net(x), y)
    loss.backward()
    trainer.step(64)
    mx.nd.waitall()
    if marks:
        with open(marks, "a") as out:
            out.write(f"step {number + 1}\n")
bytes_of = lambda arrays: sum(array.size * 4 for array in arrays)
parameters = net.collect_params().values()
print("parameters", bytes_of(p.data() for p in parameters))
print("gradients", bytes_of(p.grad() for p in parameters))
print("state", 2 * bytes_of(p.data() for p in parameters))
