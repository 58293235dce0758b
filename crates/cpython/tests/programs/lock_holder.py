"""The main thread never lets go of the lock; another one waits without it."""

import ctypes
import json
import threading
import time

said = threading.Lock()
said.acquire()


def sleep():
    said.release() or time.sleep(3600)


threading.Thread(target=sleep, name="sleeper", daemon=True).start()
said.acquire()
line = json.dumps({}).encode() + b"\n"
# Called with the lock held, unlike print: from here on it stays held.
ctypes.PyDLL(None).write(1, line, len(line)), sum(range(10**15))
