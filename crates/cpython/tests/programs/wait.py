"""Says that it is ready, and waits."""

import json
import sys

print(json.dumps({"version": sys.version.split()[0]}))
sys.stdout.flush()
sys.stdin.read()
