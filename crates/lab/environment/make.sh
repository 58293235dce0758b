#!/bin/sh
# make.sh NAME: a Python environment for tests, made once in a cache folder; prints its python.
# make.sh with PYTHON PACKAGE...: one of that interpreter with these packages.
# Fails, with the reason on stderr, where there is no index or no interpreter for it.
set -euf
IFS=' '
name=$1
version=3.11 # where it is not here, whatever python3 is
packages=    # with what they need
alone=       # without
below=       # an environment whose packages are seen too
after=       # a program to run in it
python=${NILO_TEST_PYTHON:-}
case $name in
with)
    python=$2
    shift 2
    packages="$*"
    probe=
    name=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')-$(echo "$packages" | tr -c 'a-z0-9.\n' '-')
    ;;
torch-*) # its wheels are built for CUDA; stubs stand in for those libraries
    release=${name#torch-}
    case $release in
    1.*) numpy="numpy<2" cuda= ;;
    2.0*) numpy="numpy<2" cuda="nvidia-cuda-runtime-cu11==11.7.99 nvidia-cuda-cupti-cu11==11.7.101" ;;
    2.?.* | 2.?) numpy="numpy<2" cuda="nvidia-cuda-runtime-cu12 nvidia-cuda-cupti-cu12" ;;
    *) numpy=numpy cuda="nvidia-cuda-runtime==13.* nvidia-cuda-cupti==13.*" ;;
    esac
    packages="filelock sympy networkx fsspec typing_extensions jinja2 $numpy"
    alone="torch==$release.* $cuda"
    after=torch_stubs.py
    probe="import torch; torch.zeros(3).sum()"
    ;;
trainers) # those who call our callbacks, launchers, and keepers of metrics
    below=torch-2.15
    packages="wandb==0.31.0 mlflow-skinny==3.17.2 tensorboard==2.21.0 setuptools<81 lightning-utilities==0.15.3 \
        huggingface-hub tokenizers safetensors regex tqdm psutil einops hjson msgpack ninja py-cpuinfo nvidia-ml-py"
    alone="lightning==2.6.6 torchmetrics==1.9.0 transformers==5.22.2 accelerate==1.15.0 deepspeed==0.19.8"
    probe="import wandb, mlflow, accelerate
from lightning.pytorch import Trainer
from transformers import Trainer
from torch.utils.tensorboard import SummaryWriter"
    ;;
memray) # whose plugin has the same marks as ours
    packages="pytest==9.2.0 pytest-memray==1.11.0 memray==1.20.0"
    probe="import pytest_memray"
    ;;
jax)
    packages="jax==0.4.38 jaxlib==0.4.38 optax==0.2.4"
    probe="import jax, optax; jax.numpy.zeros(3)"
    ;;
keras)
    packages="keras==3.12.0 jax==0.4.38 jaxlib==0.4.38"
    probe="import os; os.environ['KERAS_BACKEND'] = 'jax'; import keras"
    ;;
mxnet)
    version=3.8
    packages="mxnet==1.9.1 numpy<1.24"
    probe="import mxnet; mxnet.nd.zeros(3).asnumpy()"
    ;;
tensorflow) # with the Keras that it names
    packages="tensorflow-cpu==2.21.0"
    probe="import keras, tensorflow; tensorflow.zeros(3).numpy()"
    ;;
tabular) # tables and trees; alone, because xgboost's wheel asks for GPU libraries
    packages="numpy==2.3.5 scikit-learn==1.7.* pandas==2.3.* narwhals"
    alone="xgboost==3.2.0 lightgbm==4.7.0"
    probe="import pandas, xgboost, lightgbm, sklearn.ensemble"
    ;;
science)
    packages="numpy==2.3.5 scikit-learn==1.7.*"
    probe="import sklearn.neural_network"
    ;;
fleet) # engines that read Parquet
    packages="duckdb==2.0.0 polars==2.1.0 datafusion==55.0.0"
    probe="import duckdb, polars, datafusion, pyarrow"
    ;;
exports) # readers of exported files: tables, event files, the schema of Perfetto's traces
    packages="pandas==2.* pyarrow>=20 duckdb==1.* tensorboard==2.* setuptools<81 perfetto==0.*"
    probe="import pandas, pyarrow.parquet, duckdb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from perfetto.protos.perfetto.trace import perfetto_trace_pb2"
    ;;
ray)
    packages="ray==2.60.0"
    probe="import ray"
    ;;
tools) # pytest, notebooks
    packages="pytest==9.2.0 pytest-xdist==3.8.0 pytest-rerunfailures==16.7 tqdm==4.70.1 nbclient==0.11.0 ipykernel==7.4.0"
    probe="import pytest, xdist, tqdm, nbclient, ipykernel"
    ;;
*)
    echo "unknown environment $name" >&2
    exit 2
    ;;
esac
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/$name
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    pyenv=$(find "$HOME/.pyenv/versions" -maxdepth 1 -name "$version.*" 2>/dev/null | sort | head -n 1)
    for found in "$pyenv/bin/python3" "$(command -v python$version || true)"; do
        [ -z "$python" ] && [ -x "$found" ] && python=$found
    done
    [ -n "$python" ] || [ "$version" != 3.11 ] || python=$(command -v python3 || true)
    [ -n "$python" ] || { echo "needs Python $version" >&2; exit 1; }
    "$python" -m venv --clear "$folder"
    pip="-m pip install --quiet --disable-pip-version-check"
    own=$folder/bin/python
    [ -z "$packages" ] || "$own" $pip $packages >&2
    [ -z "$alone" ] || "$own" $pip --no-deps $alone >&2
    site='import sysconfig; print(sysconfig.get_path("purelib"))'
    [ -z "$below" ] || "$(sh "$0" "$below")" -c "$site" >"$("$own" -c "$site")/below.pth"
    [ -z "$after" ] || "$own" "${0%/*}/$after" >&2
    "$own" -c "$probe" >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
