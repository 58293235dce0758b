"""One kilobyte a step: too little for resident memory, enough for a census."""
from pace import steps

log = []
for step in steps(200, 10):
    log.append(bytes([step % 256]) * 991)  # 1,024 bytes with its header
