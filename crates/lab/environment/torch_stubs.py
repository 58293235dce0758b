"""Lets a CUDA build of torch run on a machine without CUDA: for tests on the CPU only.

Makes an empty library for every CUDA library that torch's own libraries ask for. It has the right soname and
defines every symbol that is asked of it, with its version; symbols without a version stand in one more library that
all of them load. Nothing calls them without a device.
"""
import glob
import os
import re
import subprocess
import sysconfig
import tempfile

SITE = sysconfig.get_paths()["platlib"]
LIB = os.path.join(SITE, "torch", "lib")
FOREIGN = r"(?:libcu|libnv|libnccl)"
REST = "libtorch_stub_rest.so"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def present():
    real = glob.glob(os.path.join(LIB, "*")) + glob.glob(os.path.join(SITE, "nvidia", "**", "lib*.so*"), recursive=True)
    return {os.path.basename(path) for path in real}


def wanted():
    """Sonames with the version nodes asked of them, and symbols by version node ('' for none)."""
    sonames, symbols = {}, {}
    for library in glob.glob(os.path.join(LIB, "*.so*")):
        about = run("readelf", "-dVW", library)
        for soname in re.findall(r"NEEDED.*\[(%s[^\]]*)\]" % FOREIGN, about):
            sonames.setdefault(soname, set())
        soname = None
        for line in about.splitlines():
            if file := re.search(r"File: (\S+)", line):
                soname = file.group(1)
            elif (node := re.search(r"Name: (\S+)\s+Flags", line)) and soname in sonames:
                sonames[soname].add(node.group(1))
        undefined = re.findall(r" UND (\w+)(?:@+(\S+))?", run("readelf", "-W", "--dyn-syms", library))
        for name, node in undefined:
            if node or re.match("cu|nccl|nv", name):
                symbols.setdefault(node, set()).add(name)
    return sonames, symbols


def build(soname, nodes, *more):
    with tempfile.TemporaryDirectory() as folder:
        source, script = os.path.join(folder, "stub.c"), os.path.join(folder, "stub.map")
        with open(source, "w") as c, open(script, "w") as versions:
            for node, names in nodes.items():
                versions.write("%s { global: %s; };\n" % (node, "; ".join(names)))
                c.write("".join("long %s[8];\n" % name for name in names))
        options = [] if "" in nodes else ["-Wl,--version-script," + script]
        target = os.path.join(LIB, soname)
        run("cc", "-w", "-shared", "-fPIC", "-o", target, source, "-Wl,-soname," + soname, *options, *more)


def main():
    sonames, symbols = wanted()
    missing = {soname: nodes for soname, nodes in sonames.items() if soname not in present()}
    build(REST, {"": sorted(symbols.get("", ())) or ["stub"]})
    for soname, versions in sorted(missing.items()):
        nodes = {node: sorted(symbols.get(node, ())) or ["stub_%d" % i] for i, node in enumerate(sorted(versions) or [""])}
        build(soname, nodes if versions else {"": ["stub"]}, "-Wl,--no-as-needed", "-L" + LIB, "-l:" + REST, "-Wl,-rpath,$ORIGIN")


if __name__ == "__main__":
    main()
