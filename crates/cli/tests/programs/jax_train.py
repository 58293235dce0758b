"""jax_train.py: a small training with optax; prints its own truth about its memory."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import optax

# What a step read is gone when it returns, not some time later on another thread.
jax.config.update("jax_cpu_enable_async_dispatch", False)
key = jax.random.PRNGKey(0)
sizes = [512, 1024, 1024, 10]
params = [{"w": jax.random.normal(key, (a, b)) * 0.05, "b": jnp.zeros(b)} for a, b in zip(sizes, sizes[1:])]
optimizer = optax.adam(1e-3)
state = optimizer.init(params)


def loss_of(params, x, y):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logits = x @ params[-1]["w"] + params[-1]["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def train_step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


x, y = jax.random.normal(key, (128, 512)), jnp.zeros(128, int)
marks = os.environ.get("NILO_MARKS")
for number in range(8):
    params, state, loss = train_step(params, state, x, y)
    jax.block_until_ready(params)
    if marks:
        with open(marks, "a") as out:
            out.write(f"step {number + 1}\n")
bytes_of = lambda tree: sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(tree))
print("parameters", bytes_of(params))
print("state", bytes_of(state))
if os.environ.get("MEMORY_PROFILE"):
    jax.profiler.save_device_memory_profile(os.environ["MEMORY_PROFILE"])
