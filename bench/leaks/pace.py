"""Steps of a small training: a mark for each, at an even pace."""

import os
import time


def steps(count, seconds):
    """0, 1, … count - 1, spread over so many seconds; each is told to whoever records."""
    path = os.environ.get("NILO_MARKS")
    marks = open(path, "a", buffering=1) if path else None
    begin = time.monotonic()
    for step in range(count):
        if marks:
            marks.write(f"step {step}\n")
        yield step
        time.sleep(max(0.0, begin + (step + 1) * seconds / count - time.monotonic()))
