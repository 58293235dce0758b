"""xgboost: one more tree a step; after some it begins again, as a search over settings does."""
import gc

import numpy as np
import xgboost

import stage
from numpy_arrays import NumpyLoop


class Training(NumpyLoop):
    version = xgboost.__version__
    kind = "Booster"

    def __init__(self):
        random = np.random.default_rng(0)
        self.x, self.y = random.standard_normal((20_000, 20), np.float32), random.integers(0, 2, 20_000)
        self.matrix = xgboost.DMatrix(self.x, self.y)
        self.round = 0

    def step(self):
        if self.round % 10 == 0:
            self.booster = xgboost.Booster({"max_depth": 4, "nthread": 1, "objective": "binary:logistic"}, [self.matrix])
        self.booster.update(self.matrix, self.round % 10)
        self.round += 1

    def count(self):
        return sum(type(it) is xgboost.Booster for it in gc.get_objects())


if __name__ == "__main__":
    stage.play(Training)
