"""A training loop of MXNet's Gluon: three layers and Adam."""
import gc

import mxnet as mx
from mxnet import autograd, gluon

import stage


def bytes_of(arrays):
    return sum(array.size * 4 for array in arrays)


def ready(array):
    array.wait_to_read()
    return array


class Training(stage.Loop):
    version = mx.__version__
    kind = "NDArray"

    def __init__(self):
        mx.random.seed(0)
        self.net = gluon.nn.HybridSequential()
        dense = gluon.nn.Dense
        self.net.add(dense(1024, in_units=512, activation="relu"), dense(1024, in_units=1024, activation="relu"), dense(10, in_units=1024))
        self.net.initialize()
        self.trainer = gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": 1e-3})
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.x, self.y = mx.nd.random.normal(shape=(32, 512)), mx.nd.zeros(32)

    def step(self):
        with autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.trainer.step(32)
        mx.nd.waitall()

    def parameters(self):
        return list(self.net.collect_params().values())

    def buffers(self):
        parameters = self.parameters()
        state = [array for pair in self.trainer._updaters[0].states.values() for array in pair]
        kept = [p.data() for p in parameters] + [p.grad() for p in parameters] + state + [self.x, self.y]
        return [(array.handle.value, array.size * 4) for array in kept]

    def count(self):
        return sum(type(it) is mx.nd.NDArray for it in gc.get_objects())

    def categories(self):
        data = bytes_of(p.data() for p in self.parameters())
        return {"parameters": data, "gradients": bytes_of(p.grad() for p in self.parameters()), "optimizer state": 2 * data}

    array = staticmethod(lambda count: ready(mx.nd.ones(count)))
    nbytes = staticmethod(lambda array: array.size * 4)
    touch = staticmethod(lambda array: array.sum().asscalar())


if __name__ == "__main__":
    stage.play(Training)
