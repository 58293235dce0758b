"""Two epochs of a progress bar on standard error, as tqdm draws it; its own words on standard output."""
import sys

print("terminals", sys.stdout.isatty(), sys.stderr.isatty(), flush=True)
for epoch in range(2):
    for step in range(21):
        bar = "█" * (step // 2)
        line = f"\rEpoch {epoch}: {step * 5:3d}%|{bar:10}| {step}/20 [00:0{step % 10}<00:01, 19.97it/s, loss=0.{step}]"
        sys.stderr.write(line)
        sys.stderr.flush()
    sys.stderr.write("\n")
