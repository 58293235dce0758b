"""measure.py NILO WHAT PROCESSES SECONDS: CPU time of nilo in a window after it has started, as a line of JSON.

WHAT: list, process, run (nilo top); record, listen (nilo run, without and with a scrape every second).
"""
import fcntl, json, os, pty, select, signal, struct, subprocess, sys, tempfile, termios, time, urllib.request

nilo, what, processes, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
# Every process of the tree grows by some 100 KiB a second.
TREE = """
import os, sys, time
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0: break
held = []
while True:
    held.append(bytearray(os.urandom(1024)) * 10)
    time.sleep(0.1)
"""
SETTLE_S = 3


def cpu_s(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        total += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0])
    return total / 1e9


def terminal(arguments):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(nilo, [nilo, "top", *arguments])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    return pid, fd


def wait(until, fd=None, url=None):
    shown, scrape = 0, 0.0
    while time.time() < until:
        if url and time.time() >= scrape:
            urllib.request.urlopen(url).read()
            scrape = time.time() + 1
        if fd is None:
            time.sleep(0.05)
        elif select.select([fd], [], [], 0.1)[0]:
            shown += len(os.read(fd, 65536))
    return shown


folder = tempfile.mkdtemp()
tree = ["python3", "-c", TREE, str(processes)]
recorded = what in ("run", "record", "listen")
start = [nilo, "run", "-q", "-o", f"{folder}/run.nilo"] + (["--listen", "127.0.0.1:19464"] if what == "listen" else []) + ["--"]
target = subprocess.Popen((start if recorded else []) + tree, stdout=subprocess.DEVNULL, start_new_session=True)
try:
    time.sleep(1)
    watched, fd, url = target.pid, None, None
    if what in ("list", "process", "run"):
        watched, fd = terminal({"list": [], "process": [str(target.pid)], "run": [f"{folder}/run.nilo"]}[what])
    elif what == "listen":
        url = "http://127.0.0.1:19464/metrics"
    wait(time.time() + SETTLE_S, fd, url)
    before, begin = cpu_s(watched), time.time()
    shown = wait(begin + seconds, fd, url)
    used, took = cpu_s(watched) - before, time.time() - begin
    peak = [line for line in open(f"/proc/{watched}/status") if line.startswith("VmHWM")][0].split()[1]
    if fd is not None:
        os.kill(watched, signal.SIGTERM)
        os.waitpid(watched, 0)
    print(json.dumps({"what": what, "processes": processes, "percent": 100 * used / took, "window_s": took,
                      "screen_bytes_per_s": shown / took, "peak_kib": int(peak)}))
finally:
    os.killpg(target.pid, signal.SIGKILL)
