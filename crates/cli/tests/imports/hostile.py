"""hostile.py FILE PROTOCOL: a pickle that makes a file named `ran` when it is loaded."""
import os
import pickle
import sys


class Hostile:
    def __reduce__(self):
        return os.system, ("touch ran",)


with open(sys.argv[1], "wb") as out:
    pickle.dump({"segments": [Hostile()]}, out, protocol=int(sys.argv[2]))
