"""Training of one attention layer in numpy: memory grows with batch, window and width, each in its own way.

    nilo sweep --set batch=4,8,16,32 -- python examples/attention.py --batch {batch}
    nilo sweep --set window=64..512*2 -- python examples/attention.py --window {window}
    nilo sweep --set width=64,128,256 --set batch=4,8,16 -- python examples/attention.py --width {width} --batch {batch}
    nilo sweep --set threads=1,2,4 -- python examples/attention.py
    nilo sweep --find batch=1..4096 --limit 1G -- python examples/attention.py --batch {batch}

The scores need batch * window² numbers, the projections batch * window * width, the weights width².
"""

import argparse
import os
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--window", type=int, default=128)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--pace", type=float, default=0, metavar="SECS", help="a step lasts at least this long")
arguments = parser.parse_args()

random = np.random.default_rng(1)
marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)


def weights():
    return random.standard_normal((arguments.width, arguments.width), dtype=np.float32) / arguments.width**0.5


query, key, value = weights(), weights(), weights()
momentum = [np.zeros_like(query) for _ in range(3)]

for step in range(arguments.steps):
    begin = time.monotonic()
    marks.write(f"step {step}\n")
    data = random.standard_normal((arguments.batch, arguments.window, arguments.width), dtype=np.float32)
    # Forward: everything below is kept for the way back.
    q, k, v = data @ query, data @ key, data @ value
    scores = q @ k.transpose(0, 2, 1)
    scores -= scores.max(axis=2, keepdims=True)
    attention = np.exp(scores)
    attention /= attention.sum(axis=2, keepdims=True)
    error = attention @ v - data
    # Backward.
    grad_v = attention.transpose(0, 2, 1) @ error
    grad_attention = error @ v.transpose(0, 2, 1)
    grad_scores = attention * (grad_attention - (grad_attention * attention).sum(axis=2, keepdims=True))
    grad_q, grad_k = grad_scores @ k, grad_scores.transpose(0, 2, 1) @ q
    for number, (weight, grad) in enumerate(((query, grad_q), (key, grad_k), (value, grad_v))):
        update = np.tensordot(data, grad, axes=((0, 1), (0, 1))) / (arguments.batch * arguments.window)
        momentum[number] = 0.9 * momentum[number] + update
        weight -= 0.01 * momentum[number]
    time.sleep(max(0.0, begin + arguments.pace - time.monotonic()))
print("loss", float((error**2).mean()))
