#!/bin/sh
# exports_tools.sh: the programs that read exported files: heaptrack_print, Go's pprof, speedscope. Unpacked once into a
# cache folder, nothing is installed. Prints three lines: a folder of programs and libraries, pprof, speedscope's folder.
set -eu
cache=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}
pprof=/usr/lib/go-1.19/pkg/tool/linux_amd64/pprof
root=$(sh "${0%/*}/../../../native/tests/programs/fetch_debian.sh" bookworm heaptrack libboost-filesystem1.74.0 \
    libboost-iostreams1.74.0 libboost-program-options1.74.0 golang-1.19-go:$pprof)
echo "$root"
echo "$root$pprof"
version=1.25.0
folder=$cache/npm/speedscope-$version
mkdir -p "$cache/npm"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    (cd "$cache/npm" && npm pack --silent "speedscope@$version" >&2)
    mkdir -p "$folder"
    tar -xzf "$folder.tgz" -C "$folder" --strip-components=1
    rm "$folder.tgz"
    touch "$folder/ready"
fi
echo "$folder/dist/release"
