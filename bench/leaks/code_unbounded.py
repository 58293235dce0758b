"""Code compiled for each new input and kept for ever."""
from pace import steps

compiled = {}
for step in steps(160, 8):
    lines = "\n".join(f"x{number} = {step} + {number}.5" for number in range(400))
    compiled[step] = compile(lines, f"<step {step}>", "exec")
