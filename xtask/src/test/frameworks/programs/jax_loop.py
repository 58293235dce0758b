"""A training loop of JAX: three layers and Adam of optax, compiled."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import optax

import stage

# What a step read is gone when it returns, not some time later on another thread.
jax.config.update("jax_cpu_enable_async_dispatch", False)


def loss_of(params, x, y):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ params[-1]["w"] + params[-1]["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


class Training(stage.Loop):
    version = jax.__version__
    kind = "ArrayImpl"

    def __init__(self):
        key, sizes = jax.random.PRNGKey(0), [512, 1024, 1024, 10]
        self.params = [{"w": jax.random.normal(key, (a, b)) * 0.05, "b": jnp.zeros(b)} for a, b in zip(sizes, sizes[1:])]
        self.optimizer = optax.adam(1e-3)
        self.state = self.optimizer.init(self.params)
        self.x, self.y = jax.random.normal(key, (32, 512)), jnp.zeros(32, int)
        self.compiled = jax.jit(self.update)

    def update(self, params, state, x, y):
        gradients = jax.grad(loss_of)(params, x, y)
        updates, state = self.optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    def step(self):
        self.params, self.state = self.compiled(self.params, self.state, self.x, self.y)
        jax.block_until_ready(self.params)

    def kept(self):
        return jax.tree_util.tree_leaves((self.params, self.state, self.x, self.y))

    def buffers(self):
        return [(leaf.unsafe_buffer_pointer(), leaf.nbytes) for leaf in self.kept()]

    def count(self):
        return len(jax.live_arrays())

    def categories(self):
        return {"train state": sum(leaf.nbytes for leaf in self.kept())}

    array = staticmethod(lambda count: jnp.ones(count).block_until_ready())
    nbytes = staticmethod(lambda array: array.nbytes)
    touch = staticmethod(lambda array: array.sum().block_until_ready())


if __name__ == "__main__":
    stage.play(Training)
