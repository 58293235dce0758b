#!/bin/sh
# framework_env.sh jax|mxnet|fleet|ray|keras|tools: a Python environment with that framework (fleet: engines that read Parquet; tools: pytest, notebooks), made once in a cache folder; prints its python.
# Fails, with the reason on stderr, where there is no index or no interpreter for it.
set -eu
name=$1
case $name in
jax) version=3.11 packages="jax==0.4.38 jaxlib==0.4.38 optax==0.2.4" probe="import jax, optax; jax.numpy.zeros(3)" ;;
mxnet) version=3.8 packages="mxnet==1.9.1 numpy<1.24" probe="import mxnet; mxnet.nd.zeros(3).asnumpy()" ;;
fleet) version=3.11 packages="duckdb==2.0.0 polars==2.1.0 datafusion==55.0.0" probe="import duckdb, polars, datafusion, pyarrow" ;;
ray) version=3.11 packages="ray==2.60.0" probe="import ray" ;;
keras) version=3.11 packages="keras==3.12.0 jax==0.4.38 jaxlib==0.4.38" probe="import os; os.environ['KERAS_BACKEND'] = 'jax'; import keras" ;;
tools) version=3.11 packages="pytest==9.2.0 pytest-xdist==3.8.0 pytest-rerunfailures==16.7 tqdm==4.70.1 nbclient==0.11.0 ipykernel==7.4.0" probe="import pytest, xdist, tqdm, nbclient, ipykernel" ;;
*) echo "unknown framework $name" >&2; exit 2 ;;
esac
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/$name
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    python=
    for found in "$HOME"/.pyenv/versions/$version.*/bin/python3 "$(command -v python$version || true)"; do
        [ -z "$python" ] && [ -x "$found" ] && python=$found
    done
    [ -n "$python" ] || { echo "needs Python $version" >&2; exit 1; }
    "$python" -m venv --clear "$folder"
    IFS=' '
    set -f
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check $packages >&2
    "$folder/bin/python" -c "$probe" >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
