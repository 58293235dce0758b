"""ray_workers.py NILO PYTHON: two workers of Ray under `nilo run`, one of which holds 200 MiB."""
import os
import sys

import ray

nilo, python = sys.argv[1:3]
os.makedirs("runs", exist_ok=True)
here = os.path.abspath("runs")
environment = {"py_executable": f"{nilo} run -q -- {python}", "env_vars": {"NILO_DIR": here}}
ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80_000_000, runtime_env=environment)


@ray.remote
class Worker:
    def hold(self, mib):
        self.held = bytearray(b"x") * (mib << 20)
        return os.getpid()


workers = [Worker.remote() for _ in range(2)]
print(ray.get([worker.hold.remote(mib) for worker, mib in zip(workers, (1, 200))]))
ray.shutdown()
