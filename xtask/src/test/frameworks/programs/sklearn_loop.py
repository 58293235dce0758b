"""scikit-learn on a table of pandas: a perceptron that is given one batch after the other."""
import gc

import numpy as np
import pandas as pd
import sklearn
from sklearn.neural_network import MLPClassifier

import stage
from numpy_arrays import NumpyLoop


class Training(NumpyLoop):
    version = f"{sklearn.__version__}, pandas {pd.__version__}, numpy {np.__version__}"
    kind = "DataFrame"

    def __init__(self):
        random = np.random.default_rng(0)
        self.table = pd.DataFrame(random.standard_normal((20_000, 40)))
        self.labels = random.integers(0, 3, 20_000)
        self.model = MLPClassifier((128, 64), random_state=0)
        self.at = 0

    def step(self):
        rows = slice(self.at, self.at + 256)
        self.at = (self.at + 256) % 19_000
        self.model.partial_fit(self.table.iloc[rows], self.labels[rows], classes=range(3))

    def count(self):
        return sum(type(it) is pd.DataFrame for it in gc.get_objects())


if __name__ == "__main__":
    stage.play(Training)
