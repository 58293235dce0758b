"""Driver of `nilo sweep --on ray`: one task a point; tells how each ended, one JSON line each."""
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading

plan = json.load(open(sys.argv[1]))
# Of a cluster of our own: a kill for want of memory is a result, not a reason to try again.
os.environ.setdefault("RAY_task_oom_retries", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray


def with_its_worker():
    """Ray ends workers, not what they started: who loses its worker is asked to end."""
    ctypes.CDLL(None).prctl(1, 15)


def run(task, directory):
    environment = dict(os.environ, **dict(task["environment"]))
    with open(os.open(task["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        done = subprocess.run(
            task["argv"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=with_its_worker,
        )
    return done.returncode


PATIENCE_S = 3
UNREACHABLE = 3


def refuse(why):
    """Left alone, Ray would try for more than a minute."""
    print(f"no cluster of Ray answers at {address}: {why}", file=sys.stderr, flush=True)
    os._exit(UNREACHABLE)


def probe(host, port):
    """Who speaks gRPC answers the opening of HTTP/2 with its settings, at once."""
    with socket.create_connection((host, port), PATIENCE_S) as connection:
        if os.environ.get("RAY_USE_TLS", "0") in ("0", "", "false"):
            connection.settimeout(PATIENCE_S)
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            answer = connection.recv(9)
            if len(answer) < 4 or answer[3] != 4:
                refuse("something else listens there")


def check():
    """Only addresses with a port can be tried; Ray looks for the others by itself."""
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not (colon and port.isdigit()):
        return
    try:
        probe(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        refuse("no answer within 3 s" if isinstance(error, TimeoutError) else error)


# Left alone, Ray would join whatever cluster it finds on this machine, perhaps one that has ended.
address = plan["address"] or os.environ.get("RAY_ADDRESS") or "local"
limit = threading.Timer(10 * PATIENCE_S, refuse, ["it did not let us in within 30 s"])
limit.daemon = True
if address != "local":
    check()
    limit.start()
ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
limit.cancel()
options = {"num_cpus": 1, "max_retries": 0}
if plan["memory"]:
    options["memory"] = plan["memory"]
remote = ray.remote(**options)(run)
waiting = {remote.remote(task, plan["directory"]): number for number, task in enumerate(plan["tasks"])}
with open(plan["results"], "a") as results:
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        told = {"task": waiting.pop(done)}
        try:
            told["code"] = ray.get(done)
        except ray.exceptions.OutOfMemoryError as error:
            told["ended"] = "OutOfMemoryError (out of memory: its memory monitor): " + str(error).split("\n")[0]
        except ray.exceptions.RayError as error:
            told["ended"] = type(error).__name__ + ": " + str(error).split("\n")[0]
        print(json.dumps(told), file=results, flush=True)
ray.shutdown()
