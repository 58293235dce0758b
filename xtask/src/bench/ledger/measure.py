"""Looks at one workload in every way and prints what was found beside the truth: `measure.py NILO FOLDER CASE COMMAND…`."""
import json
import os
import resource
import subprocess
import sys
import time

NILO, FOLDER, CASE, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]


class Target:
    def __init__(self, command, **more):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        assert self.answer()["ready"]

    def answer(self):
        return json.loads(self.child.stdout.readline())

    def ask(self, order):
        self.child.stdin.write(order + "\n")
        self.child.stdin.flush()
        return self.answer()

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def where(*words):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    text = subprocess.run([NILO, "where", *words, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {"wall_s": wall, "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
    return json.loads(text), cost


def line(ledger, *names):
    return sum(part["bytes"] for part in ledger["parts"] if part["name"] in names)


def file_pages(pid):
    """Resident pages of programs' files, as the kernel says, without copies of them."""
    sums, programs, path = {}, set(), ""
    for row in open(f"/proc/{pid}/smaps"):
        words = row.split()
        if "-" in words[0] and not words[0].endswith(":"):
            path = words[5] if len(words) > 5 else ""
            if "x" in words[1]:
                programs.add(path)
        elif words[0] == "Rss:":
            sums[path] = sums.get(path, 0) + int(words[1]) * 1024
        elif words[0] == "Anonymous:":
            sums[path] = sums.get(path, 0) - int(words[1]) * 1024
    return sum(size for path, size in sums.items() if path.startswith("/") and path in programs)


def share(found, truth):
    return None if not truth else abs(found - truth) / truth


def look(pid, target, row):
    ledger, cost = where(str(pid), "--single")
    row["rss_bytes"], row["residual_share"] = ledger["rss_bytes"], abs(ledger["residual_bytes"]) / ledger["rss_bytes"]
    row["badge"], row["stopped_ms"] = ledger["badge"], ledger["pause"]["stopped_ns"] / 1e6
    # The best of three: the first also pays for memory that a virtual machine's host has to find.
    costs = [cost] + [where(str(pid), "--single")[1] for _ in range(2)]
    row["first_wall_s"] = cost["wall_s"]
    row.update({name: min(cost[name] for cost in costs) for name in cost})
    row["code_error_bytes"] = abs(line(ledger, "code") - file_pages(pid))
    row["not_judged_share"] = line(ledger, "other_maps", "malloc_unknown") / ledger["rss_bytes"]
    row["parts"] = {part["name"]: part["bytes"] for part in ledger["parts"]}
    row["libraries"] = [[it["name"], it["code_bytes"] + it["data_bytes"]] for it in ledger["libraries"][:5]]
    # Twice: what the question itself allocates is there the second time.
    target.ask("status")
    truth = target.ask("status")["mallinfo"]
    malloc = where(str(pid), "--single")[0]["malloc"]
    if truth and malloc:
        whole = truth["uordblks"] + truth["fordblks"]
        row["in_use_error"] = abs(malloc["in_use_bytes"] - truth["uordblks"]) / whole
        row["free_error"] = abs(malloc["free_bytes"] - truth["fordblks"]) / whole
        row["mapped_error"] = share(malloc["mapped_bytes"], truth["hblkhd"])
    running, cost = where(str(pid), "--single", "--pause", "off")
    row["running_residual_share"] = abs(running["residual_bytes"]) / running["rss_bytes"]
    if CASE != "threads":
        before = line(where(str(pid), "--single")[0], "arrays")
        made = target.ask("more")["bytes"]
        row["arrays_error_bytes"] = abs(line(where(str(pid), "--single")[0], "arrays") - before - made)


def in_a_run(row):
    """The same under `nilo run`: what it keeps of its own accord."""
    folder = os.path.join(FOLDER, "run.nilo")
    command = [NILO, "run", "-q", "--force", "--budget", "20%", "-o", folder, "--", *COMMAND]
    target = Target(command)
    pid = int(open(f"/proc/{target.child.pid}/task/{target.child.pid}/children").read().split()[-1])
    exact, _ = where(str(pid), "--single")
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        time.sleep(1)  # ledgers come by themselves
    target.end()
    found = subprocess.run([NILO, "where", folder, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode == 0:
        ledgers = json.loads(found.stdout)["ledgers"]
        mine = [it for it in ledgers if it["pid"] == pid] or ledgers
        row["run_residual_share"] = max(abs(it["residual_bytes"]) / it["rss_bytes"] for it in mine)
        row["run_cost_ms_per_gb"] = mine[-1]["cost_s"] * 1e3 / (mine[-1]["rss_bytes"] / 1e9)
        last = {part["name"]: part["bytes"] for part in mine[-1]["parts"]}
        row["run_parts"] = last
        # How far the lines are from those of a stop, as a share of the whole.
        names = set(last) | {part["name"] for part in exact["parts"]}
        off = sum(abs(last.get(name, 0) - line(exact, name)) for name in names) / 2
        row["run_misplaced_share"] = off / exact["rss_bytes"]


def in_a_group(row):
    """A tree in a cgroup of its own: private memory counted once, against the kernel's counter."""
    root = "/sys/fs/cgroup/memory"
    group = os.path.join(root, f"nilo-bench-{os.getpid()}")
    try:
        os.mkdir(group)
    except OSError as error:
        row["group_skipped"] = str(error)
        return
    enter = lambda: open(os.path.join(group, "cgroup.procs"), "w").write("0")
    target = Target(COMMAND, preexec_fn=enter)
    try:
        ledger, cost = where(str(target.child.pid))
        stat = dict(row.split() for row in open(os.path.join(group, "memory.stat")))
        counter = int(stat["total_rss"]) + int(stat.get("total_shmem", 0))
        code = ("code", "files")
        private = sum(it["pss_bytes"] for it in ledger["tree"]["parts"] if it["name"] not in code)
        row["tree_pss_bytes"], row["group_bytes"] = private, counter
        row["tree_error"] = share(private, counter)
        row["tree_processes"] = ledger["tree"]["processes"]
        row["tree_wall_s"] = cost["wall_s"]
        workers = [it["unshared"] for it in ledger["processes"] if it.get("unshared")]
        row["unshared"] = [[it["bytes"], it["shared_bytes"], it["kinds"][0]["name"] if it["kinds"] else ""] for it in workers]
    finally:
        target.end()
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)


row = {"case": CASE}
target = Target(COMMAND)
look(target.child.pid, target, row)
target.end()
in_a_run(row)
if CASE == "tree":
    in_a_group(row)
print(json.dumps(row))
