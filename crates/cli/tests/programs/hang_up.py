"""Runs its arguments as the leader of a session with a terminal, and hangs up when it is told to."""
import os
import pty
import sys

pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
print("leader", pid, flush=True)
sys.stdin.readline()
