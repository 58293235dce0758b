#!/bin/sh
# exports_env.sh: a Python environment with what reads exported files, made once in a cache folder; prints its python.
# pandas, pyarrow, duckdb: tables; tensorboard: event files; perfetto: the schema of its traces.
set -eu
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/exports
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    python=${NILO_TEST_PYTHON:-$HOME/.pyenv/versions/3.11.7/bin/python3}
    [ -x "$python" ] || python=python3
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
        "pandas==2.*" "pyarrow>=20" "duckdb==1.*" "tensorboard==2.*" "setuptools<81" "perfetto==0.*" >&2
    "$folder/bin/python" -c 'import pandas, pyarrow.parquet, duckdb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from perfetto.protos.perfetto.trace import perfetto_trace_pb2' >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
