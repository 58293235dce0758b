"""What `nilo pages` costs: itself (CPU per GiB and window, memory) and the process that is looked at.

measure.py NILO HOT CASE [COMMAND…] prints one JSON document. HOT is the program that touches stated pages.
"""
import ctypes
import json
import os
import resource
import subprocess
import sys
import time

NILO, HOT, CASE = sys.argv[1:4]
COMMAND = sys.argv[4:]
PAGE = 4096
ADDR_NO_RANDOMIZE = 0x0040000
# What malloc does with freed memory: it keeps all, or every array is a mapping of its own, new at each step.
MALLOC = {
    "keeps": ["MALLOC_TRIM_THRESHOLD_=4000000000", "MALLOC_MMAP_THRESHOLD_=33554432"],
    "gives back": ["MALLOC_TRIM_THRESHOLD_=131072", "MALLOC_MMAP_THRESHOLD_=131072"],
}


def hot(size, count, stride, how="private"):
    child = subprocess.Popen([HOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line):
        child.stdin.write(line + "\n")
        child.stdin.flush()
        return child.stdout.readline().split()

    base = int(ask(f"map {size} {how}")[1])
    ask(f"hot 0 {count} {stride} w")
    return child, base


def pages(pid, *options):
    """The document, our CPU seconds and our peak memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [NILO, "pages", str(pid), "--json", "--no-names", *options]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        raise SystemExit(err.decode())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(out), cpu, after.ru_maxrss * 1024


def cost(gib, *options):
    """CPU of the looks themselves (as told) and of the whole tool, for a process of so many GiB at 4 KiB."""
    size = int(gib * (1 << 30))
    child, _ = hot(size, size // PAGE // 5, 5)
    document, cpu, memory = pages(child.pid, "--window", "1s", "--duration", "5s", *options)
    child.stdin.close()
    child.wait()
    windows = document["windows"]
    wss = [window["wss_bytes"] for window in windows]
    return {
        "gib": gib,
        "options": list(options),
        "backend": document["backend"],
        "windows": len(windows),
        "touched_truth_bytes": size // PAGE // 5 * PAGE,
        "touched_least_bytes": min(wss),
        "touched_most_bytes": max(wss),
        "told_cpu_ms_per_gib": document["cpu_s_per_gib"] * 1e3,
        "whole_cpu_ms_per_gib": cpu / len(windows) / gib * 1e3,
        "own_memory_bytes": memory,
        "memory_over_rss": (memory - (20 << 20)) / size,
        "pause_share": document["pause_share"],
    }


def step_times(command, *options):
    """Seconds of the training steps that the command prints, under `nilo pages` or alone, and its processor seconds."""
    prefix = [NILO, "pages", "-q", "--json=/dev/null", "--window", "1s", *options, "--"] if options else []
    out = subprocess.run(prefix + command, stdout=subprocess.PIPE, text=True, check=True).stdout
    cpu, seconds = map(float, out.split()[-2:])
    return seconds, cpu


def fixed(command, seed, malloc):
    """The command with the same environment and the same addresses in each run of a round, and others in the next.

    When malloc gives memory back is fixed too. By default it learns that from what was freed, a page more or less
    in the heap decides (which any look from outside may change), and the training in torch then has between 70,000
    and 390,000 faults in 40 steps, which is a tenth of its time.
    """
    keep = [f"{name}={os.environ[name]}" for name in ("HOME", "PATH") if name in os.environ]
    return ["env", "-i", *keep, f"PYTHONHASHSEED={seed}", *MALLOC[malloc], *command]


def training(command, rounds, malloc):
    """Interleaved: whole mappings, chunks, each between two runs alone, of which it is the ratio to the mean."""
    ways = {"mappings": ["--no-inject"], "split": ["--no-names"]}
    ratios = {name: [] for name in ways}
    cpu = {name: [] for name in ways}
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)  # of all that is started from here
    for seed in range(rounds):
        command_of_round = fixed(command, seed, malloc)
        before = step_times(command_of_round)
        for name, options in ways.items():
            looked_at = step_times(command_of_round, *options)
            after = step_times(command_of_round)
            for into, number in ((ratios, 0), (cpu, 1)):
                into[name].append(looked_at[number] / ((before[number] + after[number]) / 2))
            before = after
    return {"ratios": ratios, "cpu_ratios": cpu}


def main():
    if CASE == "cost":
        options = COMMAND[1:]
        print(json.dumps(cost(float(COMMAND[0]), *options)))
    elif CASE == "training":
        print(json.dumps(training(COMMAND[2:], int(COMMAND[0]), COMMAND[1])))


main()
