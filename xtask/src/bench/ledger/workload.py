"""One process to be looked at: `workload.py CASE SCALE`. Says what it has on each order, one line of JSON each."""
import ctypes
import json
import os
import sys

CASE, SCALE = sys.argv[1], float(sys.argv[2])


def bare():
    return [(i, str(i), [i]) for i in range(int(100_000 * SCALE))]


def treelstm():
    """Trees of nodes with small states, and the weights of a cell."""
    import numpy as np

    hidden = 150
    weights = [np.random.rand(hidden * 4, hidden) for _ in range(3)]

    class Node:
        def __init__(self, depth):
            self.children = [Node(depth - 1), Node(depth - 1)] if depth else []
            self.h, self.c = np.random.rand(hidden), np.random.rand(hidden)

    return weights, [Node(9) for _ in range(int(60 * SCALE))]


def sklearn():
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    rows = int(200_000 * SCALE)
    frame = pd.DataFrame(np.random.rand(rows, 30), columns=[f"c{i}" for i in range(30)])
    frame["name"] = [f"row {i}" for i in range(rows)]
    forest = RandomForestClassifier(n_estimators=20, max_depth=8, n_jobs=1)
    forest.fit(frame.iloc[: rows // 10, :30], np.arange(rows // 10) % 3)
    return frame, forest


def train(model, batch, loss_of):
    import torch

    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        loss = loss_of(model(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer, loss


def torch_cnn():
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 28 * 28, 256))
    return train(model, torch.randn(int(32 * SCALE) or 1, 3, 32, 32), lambda out: out.square().mean())


def torch_transformer():
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 6)
    return train(model, torch.randn(int(16 * SCALE) or 1, 64, 256), lambda out: out.square().mean())


def jax():
    import jax
    import jax.numpy as jnp

    x = jnp.ones((int(2000 * SCALE), 2000))
    f = jax.jit(lambda a: jnp.tanh(a @ a.T).sum())
    f(x).block_until_ready()
    return x, f


def tree():
    """Four workers that have read a list and an array of their parent's."""
    import array

    numbers = [float(i) for i in range(int(1_000_000 * SCALE))]
    buffer = array.array("d", numbers)
    gates = []
    for _ in range(4):
        ready, told = os.pipe()
        gate, opener = os.pipe()
        if os.fork() == 0:
            os.close(opener)
            sum(numbers)
            memoryview(buffer).tobytes()[:1]
            os.write(told, b".")
            os.read(gate, 1)
            os._exit(0)
        os.read(ready, 1)
        os.close(gate)
        gates.append(opener)
    return numbers, buffer, gates


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def mallinfo():
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    return {name: getattr(info, name) for name in ("uordblks", "fordblks", "hblkhd")}


def more():
    """Arrays of known sizes; their bytes."""
    if CASE.startswith("torch"):
        import torch

        made = [torch.ones(n) for n in (1000, 300_000, 3_000_000)]
        return made, sum(t.numel() * t.element_size() for t in made)
    try:
        import numpy as np

        made = [np.ones(n) for n in (1000, 300_000, 3_000_000)]
        return made, sum(a.nbytes for a in made)
    except ImportError:
        made = [bytearray(b"x" * n) for n in (10_000, 3_000_000, 20_000_000)]
        return made, sum(b.__alloc__() for b in made)


kept = [globals()[CASE]()]
mallinfo()
print(json.dumps({"ready": True}), flush=True)
for order in sys.stdin:
    if order.strip() == "more":
        made, size = more()
        kept.append(made)
        print(json.dumps({"bytes": size}), flush=True)
    else:
        answer = {"mallinfo": mallinfo()}
        print(json.dumps(answer), flush=True)
