#!/usr/bin/env python3
"""How much memory a training really touches: the experiments that MemSnoop made in 2018, by one script.

A small convolutional network on data of CIFAR's shape, looked at by `nilo pages`: how the working set depends on the
batch size, on the threads, on the window; what filters change; what the interpreter and its imports alone touch; the same
inside a namespace of its own. Needs torch in the interpreter that runs it (`--python`).

    examples/touched_memory.py --nilo target/release/nilo --python ~/venv/bin/python -o docs/touched-memory
    examples/touched_memory.py --quick …         few images: to see that it works
    examples/touched_memory.py --tables batch …  these tables anew; the others stay as they are in results.json

Writes results.json (after each table), README.md with the tables, and heat maps.
"""
import argparse
import json
import os
import subprocess
import sys
import time

BATCHES = [16, 32, 64, 128, 256, 512, 1024]
WINDOWS = "0.2,0.5,1,2,4,8"


def train(images, batch, threads, epochs):
    """The training itself, in a process of its own: prints the seconds of each epoch."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    data = torch.randn(images, 3, 32, 32)
    labels = torch.randint(0, 10, (images,))
    convolution, linear, relu = torch.nn.Conv2d, torch.nn.Linear, torch.nn.ReLU
    model = torch.nn.Sequential(
        convolution(3, 32, 3, padding=1), relu(), convolution(32, 32, 3), relu(), torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.25),
        convolution(32, 64, 3, padding=1), relu(), convolution(64, 64, 3), relu(), torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.25), torch.nn.Flatten(),
        linear(64 * 6 * 6, 512), relu(), torch.nn.Dropout(0.5), linear(512, 10),
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    marks = os.environ.get("NILO_MARKS")
    for epoch in range(epochs):
        begin, order = time.perf_counter(), torch.randperm(images)
        for number, start in enumerate(range(0, images, batch)):
            rows = order[start:start + batch]
            loss = torch.nn.functional.cross_entropy(model(data[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if marks:
                with open(marks, "a") as file:
                    print("step", number, file=file)
        print("epoch", time.perf_counter() - begin, flush=True)


class Lab:
    def __init__(self, options):
        self.options = options
        self.processors = os.cpu_count() or 1

    def look(self, name, command, *words, prefix=()):
        """One recording: the document, and the seconds of its epochs."""
        document = os.path.join(self.options.output, name + ".json")
        nilo = [self.options.nilo, "pages", "-q", f"--json={document}", *words, "--", *prefix, *command]
        print("$", " ".join(nilo), file=sys.stderr, flush=True)
        out = subprocess.run(nilo, stdout=subprocess.PIPE, text=True)
        if not os.path.exists(document):
            return {"name": name, "failed": out.returncode}
        with open(document) as file:
            told = json.load(file)
        os.remove(document)
        epochs = [float(line.split()[1]) for line in out.stdout.splitlines() if line.startswith("epoch")]
        return {"name": name, "epoch_s": epochs, **summary(told)}

    def training(self, batch, threads, epochs):
        images = str(self.options.images)
        return [self.options.python, __file__, "--train", images, str(batch), str(threads), str(epochs)]

    def controls(self):
        python, half = self.options.python, ["--window", "0.5"]
        alone = [python, "-c", "import time; time.sleep(4)"]
        imports = [python, "-c", "import torch, time; time.sleep(4)"]
        inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
        return [
            self.look("interpreter alone", alone, *half),
            self.look("imports only", imports, *half),
            self.look("training", self.training(128, 1, 1), *half),
            self.look("training in its own namespaces", self.training(128, 1, 1), *half, prefix=inside),
        ]

    def batch(self):
        return [self.look(f"batch {n}", self.training(n, 1, 1), "--window", "0.5") for n in BATCHES]

    def threads(self):
        counts = range(1, self.processors + 1)
        return [self.look(f"threads {n}", self.training(128, n, 2), "--window", "0.5") for n in counts]

    def windows(self):
        return [
            self.look(f"windows, threads {n}", self.training(128, n, 2), "--windows", WINDOWS)
            for n in sorted({1, self.processors})
        ]

    def filters(self):
        filters = ["--skip", "executable,no-access", "--min-pages", "4"]
        return [
            self.look(f"threads {n}, {' '.join(words) or 'all mappings'}", self.training(128, n, 1), "--window", "0.5", *words)
            for n in sorted({1, self.processors})
            for words in ([], filters[:2], filters)
        ]

    def heat(self):
        pictures = [("heat of all", []), ("heat of the Python heap", ["--only", "python"])]
        return [
            self.look(name, self.training(128, 1, 1), "--window", "0.5", *words, "--picture",
                      os.path.join(self.options.output, name.replace(" ", "-") + ".png"))
            for name, words in pictures
        ]


def summary(told):
    """What the tables need."""
    sizes = sorted(window["wss_bytes"] for window in told["windows"])
    written = [window["written_bytes"] for window in told["windows"] if window["written_bytes"] is not None]
    reuse = told["reuse"] or {}
    return {
        "backend": told["backend"],
        "unit_bytes": told["unit_bytes"],
        "kernel": told["kernel"],
        "windows": len(sizes),
        "rss_bytes": max(window["rss_bytes"] for window in told["windows"]),
        "wss_mean_bytes": sum(sizes) / len(sizes),
        "wss_median_bytes": sizes[len(sizes) // 2],
        "wss_max_bytes": sizes[-1],
        "written_mean_bytes": sum(written) / len(written) if written else None,
        "coverage": told["coverage"],
        "named_share": told["named_share"],
        "cold": [[cold["windows"], cold["bytes"]] for cold in told["cold"]],
        "reuse_cold_share": reuse.get("cold_share"),
        "reuse_median_bytes": reuse.get("median_bytes"),
        "by_window": [[by["window_s"], by["median_bytes"]] for by in told["wss_by_window_s"]],
        "cpu_s": told["cpu_s"],
        "pause_share": told["pause_share"],
    }


MEANING = """
## What the figures mean

- **Touched in a window** is what must be at hand to get through that much time without waiting for memory. It is not the memory that
  the training needs: that is what is touched in a window as long as an epoch, and the peak of the resident memory is above it by what was only needed to begin.
- **A window decides the answer.** A short one sees a part of a step (or, with large batches, a part of one layer), a long one the whole
  step and more of the data. Two figures can be compared only if their windows are the same, or both as long as a step (`--per-step`).
- **Reuse distance**: a touch is one chunk in one window. In longer windows a chunk that is used all the time is counted less often and
  first touches as often as before, so the share of first touches rises with the window whatever the program does. The two figures are bounds: inside
  a window the order of touches is not known.
- **Written** is what a copy of the state would have to move for each window; the difference to what is touched is only read: weights going forward, data, code.
- **Controls**: what the interpreter and its imports touch while they do nothing is in every row; what they have resident is not what they touch. Namespaces change
  nothing but the number of processes: `unshare` itself is part of the tree.
- **Epoch times** are those of a training that is looked at. Windows of 0.5 s in chunks are dear: compare them with the rows of `windows`, whose marks are 8 s apart.
- **Filters** leave out what is small or is code. What they change is the difference to the row of all mappings, what they save is in the last column.
- **Heat maps**: a row is a chunk with its owner's name, a column a window, bright is touched. Horizontal lines are used in every window (weights, code), steps are what is
  used once (data in its order), dark is what could be off-loaded.
"""


def mib(value):
    if isinstance(value, list):
        return "–".join(mib(one) for one in value)
    return "–" if value is None else f"{value / (1 << 20):.0f}"


COLUMNS = ["", "backend", "RSS", "touched, mean", "median", "most", "written", "reuse, median", "epoch s", "our CPU s"]
TITLES = {
    "controls": "Controls",
    "batch": "Batch size (1 thread, windows of 0.5 s, 1 epoch)",
    "threads": "Threads (batch 128, windows of 0.5 s, 2 epochs)",
    "windows": "Windows (batch 128, 2 epochs; all of a round begin at the same mark)",
    "filters": "Filters (batch 128, windows of 0.5 s)",
    "heat": "Heat maps (batch 128, 1 thread, windows of 0.5 s)",
}


def table(heads, rows):
    """Lines of a table in Markdown."""
    lines = ["|".join(["", *heads, ""]), "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def cells(row):
    if "failed" in row:
        return [row["name"], f"failed: {row['failed']}"] + [""] * (len(COLUMNS) - 2)
    unit = f"{row['backend']} {(row['unit_bytes'] or 0) >> 10 or ''}".strip()
    epochs = ", ".join(f"{seconds:.1f}" for seconds in row["epoch_s"])
    sizes = [row["rss_bytes"], row["wss_mean_bytes"], row["wss_median_bytes"], row["wss_max_bytes"],
             row["written_mean_bytes"], row["reuse_median_bytes"]]
    return [row["name"], unit, *map(mib, sizes), epochs, f"{row['cpu_s']:.2f}"]


def windows(rows):
    """One row a recording, one column a window: the median of what was touched."""
    told = [row for row in rows if row.get("by_window")]
    heads = ["touched, median"] + [f"{window:g} s" for window, _ in (told[0]["by_window"] if told else [])]
    return table(heads, [[row["name"]] + [mib(size) for _, size in row["by_window"]] for row in told])


def page(results):
    rows = [row for table in results.values() for row in table["rows"]]
    kernel = next((row["kernel"] for row in rows if "kernel" in row), "")
    lines = ["# How much memory a training touches", "",
             "Made by `examples/touched_memory.py`: a small convolutional network on images of 3×32×32 in float32, torch, Linux "
             f"{kernel}. Sizes are MiB; the backend stands in each row, with its unit in KiB."]
    for name, measured in results.items():
        lines += ["", f"## {TITLES[name]}", "",
                  f"{measured['images']} images, {measured['processors']} processors, {measured['date']}.", "",
                  *table(COLUMNS, [cells(row) for row in measured["rows"]])]
        if name == "windows":
            lines += ["", *windows(measured["rows"])]
        if name == "heat":
            for row in measured["rows"]:
                lines += ["", f"![{row['name']}]({row['name'].replace(' ', '-')}.png)"]
    return "\n".join(lines) + "\n" + MEANING


def measure(options):
    """All tables that were asked for, and what was measured before of the others."""
    path, results, lab = os.path.join(options.output, "results.json"), {}, Lab(options)
    if os.path.exists(path):
        with open(path) as file:
            results = json.load(file)
    for name in filter(None, options.tables.split(",")):
        rows, begin = getattr(lab, name)(), time.strftime("%Y-%m-%d")
        results[name] = {"images": options.images, "date": begin, "processors": lab.processors, "rows": rows}
        with open(path, "w") as file:
            json.dump(results, file, indent=1)
    return {name: results[name] for name in TITLES if name in results}


def main():
    if sys.argv[1:2] == ["--train"]:
        return train(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nilo", default="nilo")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", default=",".join(TITLES))
    parser.add_argument("-o", "--output", default="touched-memory")
    options = parser.parse_args()
    if options.quick:
        options.images = 2_000
    os.makedirs(options.output, exist_ok=True)
    results = measure(options)
    text = page(results)
    with open(os.path.join(options.output, "README.md"), "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
