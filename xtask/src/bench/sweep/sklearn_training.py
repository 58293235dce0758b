"""A network trained by scikit-learn on 16,384 rows: sklearn_training.py BATCH."""
import os
import sys
import warnings

import numpy as np
from sklearn.neural_network import MLPClassifier

warnings.simplefilter("ignore")
batch = int(sys.argv[1])
random = np.random.default_rng(1)
rows = random.standard_normal((16_384, 128))
classes = random.integers(0, 10, len(rows))
network = MLPClassifier((512, 256), batch_size=batch, max_iter=1, random_state=1)
marks = open(os.environ.get("NILO_MARKS", os.devnull), "a", buffering=1)
for step in range(2):
    marks.write(f"step {step}\n")
    network.partial_fit(rows, classes, classes=np.arange(10))
