#!/bin/sh
# numpy_env.sh PYTHON PACKAGE...: an environment of that interpreter with these packages, made once in a cache folder;
# prints its python. Fails, with the reason on stderr, where there is no index.
set -eu
python=$1
shift
name=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')-$(echo "$*" | tr -c 'a-z0-9.\n' '-')
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/$name
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
