"""pack.py BINARY FOLDER: a wheel as maturin makes it, from a binary that is there already. For the tests of installing.

The wheel that is released is made by `cargo xtask wheel`, which installs it in the same way.
"""
import base64
import hashlib
import os
import re
import sys
import zipfile

binary, folder = sys.argv[1:]
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
project = open(os.path.join(here, "pyproject.toml")).read()
version = re.search(r'__version__ = "(.*)"', open(os.path.join(here, "nilometer/__init__.py")).read()).group(1)
info = "nilometer-%s.dist-info/" % version
plugin = re.search(r"\[project.entry-points.pytest11\]\n((?:\w.*\n)+)", project).group(1)
files = {
    "nilometer-%s.data/scripts/nilo" % version: open(binary, "rb").read(),
    info + "METADATA": ("Metadata-Version: 2.1\nName: nilometer\nVersion: %s\nRequires-Python: >=3.8\n" % version).encode(),
    info + "WHEEL": b"Wheel-Version: 1.0\nGenerator: pack.py\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
    info + "entry_points.txt": ("[pytest11]\n" + plugin.replace('"', "")).encode(),
}
for top, _, names in os.walk(os.path.join(here, "nilometer")):
    for name in names:
        if name.endswith(".py"):
            path = os.path.join(top, name)
            files[os.path.relpath(path, here)] = open(path, "rb").read()
record = ""
path = os.path.join(folder, "nilometer-%s-py3-none-linux_x86_64.whl" % version)
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
    for name, data in sorted(files.items()):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if name.endswith("/nilo") else 0o100644) << 16
        wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    wheel.writestr(info + "RECORD", record + info + "RECORD,,\n")
print(path)
