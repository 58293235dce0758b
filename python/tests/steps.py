"""Trainings that say nothing about their steps. Prints how many there were."""
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")


def torch_steps():
    import torch

    layer = torch.nn.Linear(4, 4)
    main = torch.optim.AdamW(layer.parameters())
    other = torch.optim.SGD(layer.parameters(), lr=0.1)
    for turn in range(12):
        main.zero_grad()
        layer(torch.ones(2, 4)).sum().backward()
        result = main.step()
        assert result is None
        if turn % 2:
            other.step()
    lbfgs = torch.optim.LBFGS(layer.parameters())
    assert lbfgs.step(lambda: layer(torch.ones(2, 4)).pow(2).sum()) is not None
    return 12


def tqdm_steps():
    from tqdm import tqdm

    assert list(tqdm([])) == []
    for _ in tqdm(range(3)):
        for _ in tqdm(range(10), disable=True):
            pass
    with tqdm(total=5) as bar:
        for _ in range(5):
            bar.update()
        bar.update(1000)
    for number in tqdm(range(10)):
        if number == 4:
            break
    return 3 * 10 + 5 + 4


def sklearn_steps():
    import numpy
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import SGDClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    numbers = numpy.random.default_rng(0).normal(size=(60, 3))
    classes = numpy.arange(60) % 2
    online = SGDClassifier()
    for _ in range(7):
        online.partial_fit(numbers, classes, classes=[0, 1])
    make_pipeline(StandardScaler(), SGDClassifier()).fit(numbers, classes)
    forest = RandomForestClassifier(n_estimators=3)
    GridSearchCV(forest, {"max_depth": [1, 2]}, n_jobs=2, cv=2).fit(numbers, classes)
    try:
        SGDClassifier().fit(numbers, classes[:5])
    except ValueError:
        pass
    return 7 + 1 + 1 + 1


def jax_steps():
    import functools

    import jax

    @jax.jit
    def inner(x):
        return x * 2

    @functools.partial(jax.jit, static_argnames=("times",))
    def outer(x, times=1):
        """Docs."""
        return inner(x) + times

    class Model(object):
        @functools.partial(jax.jit, static_argnums=0)
        def apply(self, x):
            return x + 1

    ones = jax.numpy.ones(3)
    for _ in range(5):
        outer(ones, times=2)
    assert float(Model().apply(ones)[0]) == 2.0
    assert float(jax.grad(lambda x: inner(x).sum())(ones)[0]) == 2.0
    assert outer.__doc__ == "Docs." and outer.lower(ones).as_text()
    assert float(jax.vmap(inner)(ones)[0]) == 2.0
    return 5 + 1 + 1 + 1


def keras_steps():
    import keras
    import numpy

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(numpy.ones((40, 4)), numpy.ones((40, 1)), batch_size=10, epochs=3, verbose=2)
    model.evaluate(numpy.ones((40, 4)), numpy.ones((40, 1)), verbose=0)
    return 4 * 3


steps = globals()[sys.argv[1] + "_steps"]()
assert not [path for path in sys.path if "nilo-hook" in path], sys.path
print("steps", steps)
