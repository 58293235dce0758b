"""Driver of `nilo sweep --on ray`: one task a point; tells how each ended, one JSON line each."""
import ctypes
import json
import os
import subprocess
import sys

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


# Left alone, Ray would join whatever cluster it finds on this machine, perhaps one that has ended.
address = plan["address"] or os.environ.get("RAY_ADDRESS") or "local"
ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
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
