"""pure.py WHEEL FOLDER: the wheel for all machines, from the one for Linux: the same package without the binary."""
import base64
import hashlib
import os
import sys
import zipfile

source, folder = sys.argv[1:]
name = "-".join(os.path.basename(source).split("-")[:2])
target = os.path.join(folder, name + "-py3-none-any.whl")
SCRIPT = "\n[console_scripts]\nnilo=nilometer.elsewhere:main\n"


def changed(path, data):
    if path.endswith(".dist-info/WHEEL"):
        lines = [line for line in data.decode().splitlines() if line and not line.startswith("Tag:")]
        lines = ["Root-Is-Purelib: true" if line.startswith("Root-Is-Purelib") else line for line in lines]
        return ("\n".join(lines + ["Tag: py3-none-any"]) + "\n").encode()
    if path.endswith(".dist-info/entry_points.txt"):
        return data + SCRIPT.encode()
    return data


record = []
with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
    for info in old.infolist():
        if ".data/" in info.filename or info.filename.endswith("/RECORD") or info.is_dir():
            continue
        data = changed(info.filename, old.read(info.filename))
        new.writestr(zipfile.ZipInfo(info.filename, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append("%s,sha256=%s,%d" % (info.filename, digest, len(data)))
    place = name + ".dist-info/RECORD"
    record.append(place + ",,")
    new.writestr(zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0)), "\n".join(record) + "\n", zipfile.ZIP_DEFLATED)
print(target)
