#!/usr/bin/env python3
"""Train a binary TreeLSTM on synthetic sentiment trees, with or without a leak.

Each sentence is a binary parse tree; every phrase in it is negative, neutral
or positive. The network reads a tree from the leaves up and is trained by
gradient descent to name the sentiment of every phrase.

What leaks, and where: the forward pass stores nine vectors on each tree node
(`ACTIVATIONS`: the gates i, f_l, f_r, o, u, the cell c and its tanh ct, the
output hActs1, the dropout mask; a leaf has no f_l and f_r), because the
backward pass needs them. The treebank holds all trees from the first step to
the last. Unless a tree is cleared after its step, its vectors therefore live
as long as the treebank. `--leak` leaves out that clearing, and nothing else.

One run is one pass over the treebank: no tree is seen twice, so the leak grows
up to the last step. Without `--leak` memory is flat after the warm-up, in which
each word gets its vector when it is first met; a batch larger than any before
it can still add some 10 to 150 KiB.

The same arithmetic runs on numpy arrays or, without numpy, on lists of floats.
If NILO_MARKS names a file, each step, counted from 1, appends a line to it as it begins.
"""

import argparse
import math
import multiprocessing
import operator
import os
import random
import time

ACTIVATIONS = ("i", "f_l", "f_r", "o", "u", "c", "ct", "hActs1", "mask")
LEAF_GATES = ("i", "o", "u")
INNER_GATES = ("i", "f_l", "f_r", "o", "u")

NEGATIVE, NEUTRAL, POSITIVE = SENTIMENTS = range(3)
VOCABULARY = 200
NOT = 0  # the word that turns the phrase to its right around
SENTENCE_WORDS = (13, 25)

KEEP = 0.9  # share of outputs that dropout lets through
LEARNING_RATE = 2.0
WORD_BOOST = 30  # a word meets few nodes of a step, a gate meets them all
SEED = 2016


# --- Trees ------------------------------------------------------------------


class Node:
    """A word (a leaf) or a phrase of two nodes, and what the network made of it."""

    __slots__ = ("word", "left", "right", "sentiment") + ACTIVATIONS

    def __init__(self, sentiment, word=None, left=None, right=None):
        self.sentiment = sentiment
        self.word = word
        self.left = left
        self.right = right
        self.forget_activations()

    def is_leaf(self):
        return self.left is None

    def size(self):
        return 1 if self.is_leaf() else 1 + self.left.size() + self.right.size()

    def forget_activations(self):
        for name in ACTIVATIONS:
            setattr(self, name, None)


def clear_tree(node):
    """Drop the activations of a whole tree: what `--leak` leaves out."""
    node.forget_activations()
    if not node.is_leaf():
        clear_tree(node.left)
        clear_tree(node.right)


def grow_sentence(seed):
    """Return the tree of one random sentence; the same seed gives the same tree."""
    rng = random.Random(seed)
    tree, _score = grow_phrase(rng, rng.randint(*SENTENCE_WORDS))
    return tree


def grow_phrase(rng, words):
    if words == 1:
        return grow_leaf(rng)
    split = rng.randint(1, words - 1)
    left, left_score = grow_phrase(rng, split)
    right, right_score = grow_phrase(rng, words - split)
    score = -right_score if left.word == NOT else left_score + right_score
    return Node(sentiment_of(score), left=left, right=right), score


def grow_leaf(rng):
    word = int(VOCABULARY * rng.random() ** 2)  # low numbers are frequent words
    score = 0 if word == NOT else (-1, 0, 1)[word % 3]
    return Node(sentiment_of(score), word=word), score


def sentiment_of(score):
    return NEUTRAL if score == 0 else POSITIVE if score > 0 else NEGATIVE


def load_treebank(sentences, workers):
    """Grow all trees, in this process or in a pool of short-lived ones."""
    seeds = range(SEED, SEED + sentences)
    if workers == 0:
        return [grow_sentence(seed) for seed in seeds]
    with multiprocessing.Pool(workers) as pool:
        return pool.map(grow_sentence, seeds)


# --- Arithmetic: the same operations on lists and on numpy arrays -------------


class ListAlgebra:
    """Vectors are lists of floats, matrices lists of rows."""

    name = "lists"
    tanh = staticmethod(math.tanh)
    vector = staticmethod(list)

    @staticmethod
    def matrix(rows):
        return [list(row) for row in rows]

    @staticmethod
    def each(function, *vectors):
        """Apply a function of scalars element by element."""
        return list(map(function, *vectors))

    @staticmethod
    def join(*vectors):
        return [value for vector in vectors for value in vector]

    @staticmethod
    def product(matrix, vector):
        return [sum(map(operator.mul, row, vector)) for row in matrix]

    @staticmethod
    def transposed_product(matrix, vector):
        total = [0.0] * len(matrix[0])
        for row, factor in zip(matrix, vector):
            total = [t + factor * r for t, r in zip(total, row)]
        return total

    @staticmethod
    def add_outer(matrix, column, row):
        for target, factor in zip(matrix, column):
            target[:] = [t + factor * r for t, r in zip(target, row)]

    @staticmethod
    def descend(matrix, gradient, rate):
        """Step down the gradient and set it to zero for the next step."""
        for row, slopes in zip(matrix, gradient):
            row[:] = [weight - rate * slope for weight, slope in zip(row, slopes)]
            slopes[:] = [0.0] * len(slopes)


class NumpyAlgebra:
    """Vectors and matrices are numpy arrays of float64."""

    name = "numpy"

    def __init__(self):
        import numpy  # here, so that --no-numpy does not pay for it

        self.tanh = numpy.tanh
        self.join = lambda *vectors: numpy.concatenate(vectors)
        self.vector = lambda values: numpy.array(list(values))
        self.matrix = lambda rows: numpy.array([list(row) for row in rows])

    @staticmethod
    def each(function, *vectors):
        return function(*vectors)

    @staticmethod
    def product(matrix, vector):
        return matrix @ vector

    @staticmethod
    def transposed_product(matrix, vector):
        return vector @ matrix

    @staticmethod
    def add_outer(matrix, column, row):
        matrix += column[:, None] * row

    @staticmethod
    def descend(matrix, gradient, rate):
        matrix -= rate * gradient
        gradient[:] = 0.0


def choose_algebra(no_numpy):
    if no_numpy:
        return ListAlgebra()
    try:
        return NumpyAlgebra()
    except ImportError:
        return ListAlgebra()


# --- The network --------------------------------------------------------------


class Linear:
    """A weight matrix (the last column is the bias) and its gradient."""

    def __init__(self, algebra, rng, inputs, outputs):
        spread = 1 / math.sqrt(inputs)
        width = inputs + 1
        self.algebra = algebra
        self.weights = algebra.matrix(
            [rng.uniform(-spread, spread) for _ in range(width)] for _ in range(outputs)
        )
        self.gradient = algebra.matrix([0.0] * width for _ in range(outputs))

    def forward(self, inputs):
        return self.algebra.product(self.weights, inputs)

    def backward(self, inputs, slopes):
        """Add to the gradient; return the slopes of the inputs."""
        self.algebra.add_outer(self.gradient, slopes, inputs)
        return self.algebra.transposed_product(self.weights, slopes)

    def descend(self, rate):
        self.algebra.descend(self.weights, self.gradient, rate)


class WordVectors:
    """One trained vector per word, made when the word is first met."""

    def __init__(self, algebra, rng, dim):
        self.algebra = algebra
        self.rng = rng
        self.dim = dim
        self.vectors = {}
        self.gradients = {}

    def forward(self, word):
        if word not in self.vectors:
            self.vectors[word] = self.algebra.vector(
                self.rng.uniform(-0.5, 0.5) for _ in range(self.dim)
            )
        return self.vectors[word]

    def backward(self, word, slopes):
        if word in self.gradients:
            slopes = self.algebra.each(operator.add, self.gradients[word], slopes)
        self.gradients[word] = slopes

    def descend(self, rate):
        for word, gradient in self.gradients.items():
            self.vectors[word] = self.algebra.each(
                lambda value, slope: value - rate * slope, self.vectors[word], gradient
            )
        self.gradients.clear()


class TreeLstm:
    """A binary TreeLSTM with a softmax over the sentiments at each node."""

    def __init__(self, algebra, dim):
        rng = random.Random(SEED)
        self.algebra = algebra
        self.dim = dim
        self.rng = rng
        self.one = algebra.vector([1.0])  # the input that meets the bias
        self.no_slope = algebra.vector([0.0] * dim)
        self.words = WordVectors(algebra, rng, dim)
        self.leaf_gates = {gate: Linear(algebra, rng, dim, dim) for gate in LEAF_GATES}
        self.inner_gates = {gate: Linear(algebra, rng, 2 * dim, dim) for gate in INNER_GATES}
        self.softmax = Linear(algebra, rng, dim, len(SENTIMENTS))

    def train(self, trees):
        """One step of gradient descent; return the mean loss per node."""
        loss = 0.0
        for tree in trees:
            self.forward(tree)
            loss += self.backward(tree, self.no_slope, self.no_slope)
        nodes = sum(tree.size() for tree in trees)
        self.descend(LEARNING_RATE / nodes)
        return loss / nodes

    def descend(self, rate):
        self.words.descend(rate * WORD_BOOST)
        self.softmax.descend(rate)
        for gates in (self.leaf_gates, self.inner_gates):
            for gate in gates.values():
                gate.descend(rate)

    def inputs_and_gates(self, node):
        if node.is_leaf():
            return self.algebra.join(self.words.forward(node.word), self.one), self.leaf_gates
        return self.algebra.join(node.left.hActs1, node.right.hActs1, self.one), self.inner_gates

    # Forward: children first; all that a node computes stays on the node.

    def forward(self, node):
        if not node.is_leaf():
            self.forward(node.left)
            self.forward(node.right)
        self.open_gates(node)
        self.fill_cell(node)
        self.emit_output(node)

    def open_gates(self, node):
        inputs, gates = self.inputs_and_gates(node)
        for name, gate in gates.items():
            squash = self.algebra.tanh if name == "u" else self.sigmoid
            setattr(node, name, self.algebra.each(squash, gate.forward(inputs)))

    def sigmoid(self, value):
        return 0.5 + 0.5 * self.algebra.tanh(0.5 * value)

    def fill_cell(self, node):
        each = self.algebra.each
        node.c = each(operator.mul, node.i, node.u)
        if not node.is_leaf():
            node.c = each(
                lambda new, f_l, c_l, f_r, c_r: new + f_l * c_l + f_r * c_r,
                node.c, node.f_l, node.left.c, node.f_r, node.right.c,
            )
        node.ct = each(self.algebra.tanh, node.c)

    def emit_output(self, node):
        node.mask = self.algebra.vector(
            1 / KEEP if self.rng.random() < KEEP else 0.0 for _ in range(self.dim)
        )
        node.hActs1 = self.algebra.each(
            lambda o, ct, mask: o * ct * mask, node.o, node.ct, node.mask
        )

    # Backward: parents first; reads what the forward pass left on the nodes.

    def backward(self, node, output_slope, cell_slope):
        """Send the slopes down the tree; return the tree's summed loss."""
        loss, judged_slope = self.judge(node)
        output_slope = self.algebra.each(
            lambda above, judged, mask: (above + judged) * mask,
            output_slope, judged_slope, node.mask,
        )
        cell_slope = self.algebra.each(
            lambda above, out, o, ct: above + out * o * (1 - ct * ct),
            cell_slope, output_slope, node.o, node.ct,
        )
        input_slope = self.close_gates(node, self.gate_slopes(node, output_slope, cell_slope))
        if node.is_leaf():
            self.words.backward(node.word, input_slope[:self.dim])
            return loss
        return loss + self.backward_children(node, input_slope, cell_slope)

    def backward_children(self, node, input_slope, cell_slope):
        each = self.algebra.each
        left_slope, right_slope = input_slope[:self.dim], input_slope[self.dim:2 * self.dim]
        return (
            self.backward(node.left, left_slope, each(operator.mul, cell_slope, node.f_l))
            + self.backward(node.right, right_slope, each(operator.mul, cell_slope, node.f_r))
        )

    def judge(self, node):
        """Return the node's loss and the slope of its output."""
        inputs = self.algebra.join(node.hActs1, self.one)
        shares = softmax([float(score) for score in self.softmax.forward(inputs)])
        loss = -math.log(shares[node.sentiment])
        shares[node.sentiment] -= 1.0
        return loss, self.softmax.backward(inputs, self.algebra.vector(shares))[:self.dim]

    def gate_slopes(self, node, output_slope, cell_slope):
        """Return the slope of each gate before it was squashed."""
        def through_sigmoid(gate, slope, factor):
            return slope * factor * gate * (1 - gate)

        def through_tanh(gate, slope, factor):
            return slope * factor * (1 - gate * gate)

        each = self.algebra.each
        slopes = {
            "i": each(through_sigmoid, node.i, cell_slope, node.u),
            "o": each(through_sigmoid, node.o, output_slope, node.ct),
            "u": each(through_tanh, node.u, cell_slope, node.i),
        }
        if not node.is_leaf():
            slopes["f_l"] = each(through_sigmoid, node.f_l, cell_slope, node.left.c)
            slopes["f_r"] = each(through_sigmoid, node.f_r, cell_slope, node.right.c)
        return slopes

    def close_gates(self, node, slopes):
        """Add to the gates' gradients; return the slope of the node's inputs."""
        inputs, gates = self.inputs_and_gates(node)
        total = None
        for name, gate in gates.items():
            slope = gate.backward(inputs, slopes[name])
            total = slope if total is None else self.algebra.each(operator.add, total, slope)
        return total


def softmax(scores):
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


# --- The program --------------------------------------------------------------


class Marks:
    """Tells Nilometer where each step begins, through the file NILO_MARKS."""

    def __init__(self):
        path = os.environ.get("NILO_MARKS")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.file = os.open(path, flags, 0o600) if path else None

    def begin_step(self, step):
        if self.file is None:
            return
        line = f"step {step} pid={os.getpid()}"
        if hasattr(time, "monotonic_ns"):  # since Python 3.7
            line += f" ns={time.monotonic_ns()}"
        os.write(self.file, line.encode() + b"\n")  # one write: lines never mix


def train(options, algebra):
    marks = Marks()
    treebank = load_treebank(options.steps * options.batch, options.workers)
    model = TreeLstm(algebra, options.dim)
    recent_losses = []
    for step in range(1, options.steps + 1):
        begin = time.monotonic()
        marks.begin_step(step)
        batch = treebank[(step - 1) * options.batch:step * options.batch]
        recent_losses.append(model.train(batch))
        if not options.leak:
            for tree in batch:
                clear_tree(tree)
        if step % 10 == 0:
            print(f"step {step} loss {sum(recent_losses) / len(recent_losses):.4f}", flush=True)
            recent_losses.clear()
        time.sleep(max(0.0, begin + options.pace - time.monotonic()))


def at_least(lowest, number):
    def parse(text):
        value = number(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"must be {lowest} or more")
        return value
    return parse


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--leak", action="store_true", help="keep the activations of every tree")
    add("--steps", type=at_least(1, int), default=60, metavar="N", help="default: %(default)s")
    add("--batch", type=at_least(1, int), default=5, metavar="TREES",
        help="trees per step, default: %(default)s")
    add("--dim", type=at_least(1, int), default=32, metavar="N",
        help="length of each vector, default: %(default)s")
    add("--workers", type=at_least(0, int), default=0, metavar="N",
        help="processes that load the treebank, default: %(default)s (this one does)")
    add("--pace", type=at_least(0, float), default=0.28, metavar="SECS",
        help="shortest duration of a step, default: %(default)s; 0 to run at full speed")
    add("--no-numpy", action="store_true", help="use lists even where numpy is installed")
    return parser.parse_args()


def main():
    options = parse_options()
    algebra = choose_algebra(options.no_numpy)
    print(f"TreeLSTM on {algebra.name}: {options.steps} steps of {options.batch} trees, "
          f"{options.dim} dimensions, leak {'on' if options.leak else 'off'}", flush=True)
    train(options, algebra)


if __name__ == "__main__":
    main()
