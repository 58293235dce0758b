"""Interpreters beside the main one, one of which waits in a thread of its own."""

import json
import os
import sys
import threading

if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters

made = [interpreters.create() for _ in range(2)]  # up to 3.12 one ends with the last reference to its number
ids = [int(one) for one in made]
code = """
import os
def inside():
    os.write({}, b"x")
    os.read({}, 1)
inside()
"""

ready, waiting = os.pipe(), os.pipe()
run = interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string
threading.Thread(target=run, args=(made[0], code.format(ready[1], waiting[0])), daemon=True).start()
os.read(ready[0], 1)
print(json.dumps({"ids": [0] + ids}), flush=True)
sys.stdin.read()
os._exit(0)
