"""Writes one line and waits until nobody reads its output: 9 when it learns of it, 1 when it does not."""
import os, select

os.write(1, b"step 1\n")
watch = select.poll()
watch.register(1, 0)
os._exit(9 if watch.poll(20_000) else 1)
