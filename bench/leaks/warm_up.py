"""Sixty megabytes are loaded in the first third, then nothing more."""
from pace import steps

tables = []
for step in steps(160, 8):
    if step < 50:
        tables.append(bytearray(b"t" * 1_200_000))
