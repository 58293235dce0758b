#!/bin/sh
# fetch_debian.sh SUITE PACKAGE[:FILE]...: unpacks packages of a Debian suite (or one file of them) into a cache folder,
# once, and prints the folder.
# Nothing is installed. Fails, with the reason on stderr, where the archive cannot be reached.
set -eu
suite=$1
shift
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/debian/$suite
mkdir -p "$folder/root" "$folder/lists/partial" "$folder/cache/archives/partial"
exec 9>"$folder/lock"
flock 9
for wanted in "$@"; do
    package=${wanted%%:*}
    [ -e "$folder/$package.done" ] && continue
    only=
    [ "$wanted" = "$package" ] || only=.${wanted#*:}
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    # The machine's own mirror, another suite of it.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$folder/sources.list"
    : >"$folder/status"
    set -- -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Dir::State::status="$folder/status" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    apt-get "$@" update >&2
    (cd "$folder" && apt-get "$@" download "$package" >&2)
    dpkg-deb --fsys-tarfile "$folder/${package}"_*.deb | tar -x -C "$folder/root" $only
    rm -f "$folder/${package}"_*.deb
    touch "$folder/$package.done"
done
echo "$folder/root"
