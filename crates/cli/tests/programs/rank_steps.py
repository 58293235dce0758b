"""rank_steps.py LEAKY MIB STEPS [torch]: one rank of a job; rank LEAKY keeps MIB more with every step.

Steps are marked; each lasts until the recorder has looked twice. With `torch` the ranks meet at every step (gloo), as data
parallel training does. Prints its rank and what it kept."""
import json
import os
import socket
import sys
import time

leaky, mib, steps = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
variables = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "NILO_RANK")
rank = next(int(os.environ[name]) for name in variables if name in os.environ)
meet = lambda: None
if "torch" in sys.argv[4:]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gradient = torch.ones(64 * 1024)
    meet = lambda: dist.all_reduce(gradient)


def ticks():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(os.environ["NILO_CONTROL"])
        client.sendall(b'{"do":"status"}\n')
        return json.loads(client.makefile().readline())["ticks"]


def looked_at():
    """The recorder answers while it waits for its next tick."""
    until = ticks() + 2
    while ticks() < until:
        time.sleep(0.005)


ballast = bytearray(40 << 20)  # a change that whoever samples the machine reads it for
looked_at()
del ballast

kept = []
with open(os.environ["NILO_MARKS"], "a") as marks:
    for step in range(steps):
        marks.write(f"step {step} pid={os.getpid()} ns={time.monotonic_ns()}\n")
        marks.flush()
        meet()
        if rank == leaky:
            kept.append(bytearray(int(mib * (1 << 20))))  # no second copy that malloc might keep
        looked_at()
    marks.write(f"step {steps} pid={os.getpid()} ns={time.monotonic_ns()}\n")
print(f"rank {rank} kept {sum(map(len, kept))}", flush=True)
if "torch" in sys.argv[4:]:
    dist.destroy_process_group()
