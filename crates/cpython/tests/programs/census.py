"""Objects of every sort; says that it is ready, and on request tells from inside what it holds, by address.

census.py WORDS: each word adds a part of the workload; `truth FILE` on the input writes the truth there.
"""

import gc
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import census_objects

kept = {}
for part in sys.argv[1:] or ["plain"]:
    kept[part] = getattr(census_objects, part)()
if "--dirty" not in sys.argv:
    gc.collect()

# So that nothing is cached, and no type made ready, later.
for kind in {type(r) for o in gc.get_objects() for r in [o] + gc.get_referents(o)}:
    kind.__module__, kind.__sizeof__, hasattr(kind, "__array_interface__")
del kind
with open(os.devnull, "w") as null:
    null.write("%d %s" % (1, json.dumps({"a": ["b"]})))

# What the truth works with is made before, so that it is in both views; its contents are in neither.
seen, front, found, own = set(), [], [], []
work = {id(seen), id(front), id(found), id(own)}


def write_truth(path):
    everything = gc.get_objects()
    own.append(id(everything))
    hidden = work | {id(everything), id(work)}
    own.append(id(hidden))
    for thing in everything:
        if id(thing) not in hidden and type(thing).__name__ != "frame":
            seen.add(id(thing))
            front.append(thing)
    del thing
    at = 0
    while at < len(front):
        thing = front[at]
        at += 1
        for referent in gc.get_referents(thing):
            if id(referent) not in seen and id(referent) not in hidden and type(referent).__name__ != "frame":
                seen.add(id(referent))
                front.append(referent)
    hidden.add(id(front))
    with open(path, "w") as file:
        for thing in front:
            file.write("%d %d %d %d\n" % (id(thing), id(type(thing)), size(thing), gc.is_tracked(thing)))
    with open(path + ".referents", "w") as file:
        for thing in front:
            if tells(thing):
                file.write("%d %s\n" % (id(thing), " ".join(str(id(r)) for r in referents(thing))))
    return len(front)


def size(thing):
    try:
        return sys.getsizeof(thing)
    except Exception:
        return 0


def tells(thing):
    kind = type(thing)
    if hasattr(kind, "__array_interface__"):
        return False  # says nothing to the collector
    return kind in (list, tuple, dict, set, frozenset) or kind.__module__ == "census_objects"


def referents(thing):
    if isinstance(thing, dict):
        return list(thing) + list(thing.values())
    return gc.get_referents(thing)


def types():
    return {str(id(t)): [t.__module__, t.__qualname__] for t in front if isinstance(t, type)}


def main():
    arrays = getattr(census_objects, "arrays", None)
    print(json.dumps({"pid": os.getpid(), "version": sys.version.split()[0]}), flush=True)
    while True:
        line = os.read(0, 4096).decode()
        if not line:
            os._exit(0)
        words = line.split()
        own.extend([id(line), id(words)] + [id(word) for word in words])
        if words[0] == "truth":
            count = write_truth(words[1])
            print(json.dumps({"count": count, "own": own, "work": list(work) + [id(work)], "types": types()}), flush=True)
        elif words[0] == "arrays":
            print(json.dumps({"arrays": arrays(kept)}), flush=True)


main()
