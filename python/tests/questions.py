"""`ledger()` and `snapshot()` answer for this process, recorded or not."""
import json
import os
import subprocess

import nilometer
from nilometer import _ask


class Marker(object):
    pass


kept = [Marker() for _ in range(12345)]
document = nilometer.ledger()
rows = _ask.lines(document)
total = sum(row["bytes"] for row in rows)
assert total == document["rss_bytes"], (total, document)
resident = _ask.status(b"VmRSS:")
assert abs(total - resident) < 8 << 20, (total, resident)
path = nilometer.snapshot() if nilometer.is_recorded() else nilometer.snapshot("own.heap")
assert os.path.exists(path), path
table = json.loads(subprocess.check_output([_ask.binary(), "heap", path, "--json"]))
counts = [row["count"] for row in table["rows"] if row["kind"].endswith("Marker")]
assert counts == [12345], counts
# Nobody may look at us any more than before.
assert nilometer.ledger() is not None
os.environ["NILO_BINARY"] = "/nonexistent"
os.environ["PATH"] = "/nonexistent"
if not os.path.exists(os.path.join(os.path.dirname(os.sys.executable), "nilo")):
    assert nilometer.ledger() is None and nilometer.snapshot("never.heap") is None
print("ok")
