"""LightGBM: one more tree a step; after some it begins again, as a search over settings does."""
import gc

import lightgbm
import numpy as np

import stage
from numpy_arrays import NumpyLoop


class Training(NumpyLoop):
    version = lightgbm.__version__
    kind = "Booster"

    def __init__(self):
        random = np.random.default_rng(0)
        self.x, self.y = random.standard_normal((20_000, 20), np.float32), random.integers(0, 2, 20_000)
        self.dataset = lightgbm.Dataset(self.x, self.y, free_raw_data=False)
        self.settings = {"objective": "binary", "num_leaves": 15, "num_threads": 1, "verbosity": -1}
        self.round = 0

    def step(self):
        if self.round % 10 == 0:
            self.booster = lightgbm.Booster(self.settings, self.dataset)
        self.booster.update()
        self.round += 1

    def count(self):
        return sum(type(it) is lightgbm.Booster for it in gc.get_objects())


if __name__ == "__main__":
    stage.play(Training)
