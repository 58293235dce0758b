"""A cache of forty entries, full after a quarter of the steps."""
from functools import lru_cache
from pace import steps


@lru_cache(maxsize=40)
def features(key):
    return str(key) * 10_000


for step in steps(160, 8):
    features(1000 + step)
