"""The TreeLSTM of the examples, one step per line of input; `--leak` keeps what every step computed.

After each step: one line per activation with how many nodes hold an array of that name and their bytes.
"""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("tree_lstm", sys.argv[1])
tree_lstm = importlib.util.module_from_spec(spec)
sys.modules["tree_lstm"] = tree_lstm
spec.loader.exec_module(tree_lstm)

BATCH = 5
STEPS = 8
leak = "--leak" in sys.argv
treebank = tree_lstm.load_treebank(STEPS * BATCH, 0)
model = tree_lstm.TreeLstm(tree_lstm.choose_algebra(False), 100)


def nodes(tree):
    yield tree
    if not tree.is_leaf():
        yield from nodes(tree.left)
        yield from nodes(tree.right)


def tell(name):
    count = size = 0
    for tree in treebank:
        for node in nodes(tree):
            array = getattr(node, name)
            if array is not None:
                count += 1
                size += array.nbytes
    print(name, count, size, flush=True)


print("ready", model.algebra.name, flush=True)
for step, _line in enumerate(sys.stdin):
    batch = treebank[step * BATCH:(step + 1) * BATCH]
    model.train(batch)
    if not leak:
        for tree in batch:
            tree_lstm.clear_tree(tree)
    for name in tree_lstm.ACTIVATIONS:
        tell(name)
