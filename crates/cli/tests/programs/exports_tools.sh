#!/bin/sh
# exports_tools.sh heaptrack|pprof|speedscope: a program that reads exported files, unpacked once into a cache folder; nothing
# is installed. Prints the folder of heaptrack's programs and libraries, Go's pprof, or the folder of speedscope's page.
set -eu
fetch=${0%/*}/../../../native/tests/programs/fetch_debian.sh
case $1 in
heaptrack)
    exec sh "$fetch" bookworm heaptrack libboost-filesystem1.74.0 libboost-iostreams1.74.0 libboost-program-options1.74.0
    ;;
pprof)
    file=/usr/lib/go-1.19/pkg/tool/linux_amd64/pprof
    root=$(sh "$fetch" bookworm golang-1.19-go:$file)
    echo "$root$file"
    ;;
speedscope)
    version=1.25.0
    folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/npm/speedscope-$version
    mkdir -p "$folder"
    exec 9>"$folder.lock"
    flock 9
    if [ ! -e "$folder/ready" ]; then
        (cd "$folder" && npm pack --silent "speedscope@$version" >&2)
        tar -xzf "$folder/speedscope-$version.tgz" -C "$folder" --strip-components=1
        rm "$folder/speedscope-$version.tgz"
        touch "$folder/ready"
    fi
    echo "$folder/dist/release"
    ;;
*)
    echo "unknown tool $1" >&2
    exit 2
    ;;
esac
