#!/bin/sh
# science_env.sh: a Python environment with numpy and scikit-learn, made once in a cache folder; prints its python.
set -eu
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/science
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    python=${NILO_TEST_PYTHON:-$HOME/.pyenv/versions/3.11.7/bin/python3}
    [ -x "$python" ] || python=python3
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "numpy==2.3.5" "scikit-learn==1.7.*" >&2
    "$folder/bin/python" -c 'import sklearn.neural_network' >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
