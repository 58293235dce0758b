"""A training of Keras on TensorFlow: three layers and Adam, a compiled step."""
import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import tensorflow as tf

import stage


def bytes_of(variables):
    return sum(variable.value.numpy().nbytes for variable in variables)


class Training(stage.Loop):
    version = f"{tf.__version__}, Keras {keras.__version__}"
    kind = "ResourceVariable"

    def __init__(self):
        keras.utils.set_random_seed(0)
        layers = keras.layers
        self.model = keras.Sequential([keras.Input((512,)), layers.Dense(1024, activation="relu"),
                                       layers.Dense(1024, activation="relu"), layers.Dense(10)])
        self.model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.x, self.y = tf.random.normal((32, 512)), tf.zeros(32, tf.int32)

    def step(self):
        self.model.train_on_batch(self.x, self.y)

    def variables(self):
        return {it.path: it for it in self.model.variables + self.model.optimizer.variables}.values()

    def buffers(self):
        kept = list(self.variables()) + [self.x, self.y]
        return [(id(it), (it.value if hasattr(it, "path") else it).numpy().nbytes) for it in kept]

    def count(self):
        return sum(type(it).__name__ == self.kind for it in gc.get_objects())

    def categories(self):
        state = [it for it in self.model.optimizer.variables if it.path.endswith(("momentum", "velocity"))]
        return {"parameters": bytes_of(self.model.trainable_variables), "optimizer state": bytes_of(state)}

    array = staticmethod(lambda count: tf.ones(count))
    nbytes = staticmethod(lambda tensor: tensor.numpy().nbytes)
    touch = staticmethod(lambda tensor: tf.reduce_sum(tensor).numpy())


if __name__ == "__main__":
    stage.play(Training)
