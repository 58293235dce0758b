"""Workers that read a list of their parent: counting references writes to its pages, and copies them."""
import os
import time
from pace import steps

data = [str(number) * 4 for number in range(400_000)]
workers = []
for worker in range(2):
    pid = os.fork()
    if pid == 0:
        position, end = 0, time.monotonic() + 8
        while time.monotonic() < end and position < len(data):
            kept = [item for item in data[position:position + 2500]]
            position += 2500
            time.sleep(0.05)
        time.sleep(max(0.0, end - time.monotonic()))
        os._exit(0)
    workers.append(pid)
for step in steps(160, 8):
    pass
for pid in workers:
    os.waitpid(pid, 0)
