"""Code compiled for one of thirty inputs."""
from pace import steps

compiled = {}
for step in steps(160, 8):
    if step % 30 not in compiled:
        lines = "\n".join(f"x{number} = {step} + {number}.5" for number in range(400))
        compiled[step % 30] = compile(lines, f"<step {step}>", "exec")
