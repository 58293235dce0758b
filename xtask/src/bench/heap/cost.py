"""Run a command and tell on stderr what it cost: `cost.py COMMAND…`. The command's stdout is ours."""
import json
import resource
import subprocess
import sys
import time

start = time.perf_counter()
code = subprocess.call(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
cost = {
    "wall_s": time.perf_counter() - start,
    "cpu_s": usage.ru_utime + usage.ru_stime,
    "peak_bytes": usage.ru_maxrss * 1024,
}
print(json.dumps(cost), file=sys.stderr)
sys.exit(code)
