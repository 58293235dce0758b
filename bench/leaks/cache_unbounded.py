"""A cache without a bound, asked for something new in each step."""
from functools import lru_cache
from pace import steps


@lru_cache(maxsize=None)
def features(key):
    return str(key) * 10_000


for step in steps(160, 8):
    features(1000 + step)
