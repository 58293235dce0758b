"""Memory that looks like lists, at addresses that dead objects had and that caches of the interpreter still know."""

import array
import json
import sys

NAMES = ["name%d" % number for number in range(64)]


class Holder(object):
    pass


def cell():
    kept = None
    return (lambda: kept).__closure__[0]


def bury():
    """Where attributes stood that were looked up before they went: the cache of lookups borrows."""
    for name in NAMES:
        setattr(Holder, name, cell())
    addresses = [id(vars(Holder)[name]) for name in NAMES]
    for name in NAMES:
        getattr(Holder, name)
    for name in NAMES:
        delattr(Holder, name)
    return addresses


def fill(words):
    """Of the same size as the dead; each pair of words is a count and a type."""
    return array.array("Q", ([1, id(list)] * words)[:words])


words = sys.getsizeof(cell()) // 8
dead = bury()
graves = [fill(words) for _ in range(256)]
starts = {grave.buffer_info()[0] for grave in graves}
print(json.dumps({"fakes": [address for address in dead if address - 16 in starts]}), flush=True)
sys.stdin.read()
