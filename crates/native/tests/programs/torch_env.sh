#!/bin/sh
# torch_env.sh RELEASE: a Python environment with that release of torch, made once in a cache folder; prints its python.
# The wheels are built for CUDA; stubs stand in for its libraries. Fails, with the reason on stderr, where there is no index.
set -eu
release=$1
here=$(dirname "$0")
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/envs/torch-$release
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    python=${NILO_TEST_PYTHON:-$HOME/.pyenv/versions/3.11.7/bin/python3}
    [ -x "$python" ] || python=python3
    "$python" -m venv --clear "$folder"
    pip="$folder/bin/python -m pip install --quiet --disable-pip-version-check"
    case $release in
    1.*) numpy="numpy<2" cuda= ;;
    2.0*) numpy="numpy<2" cuda="nvidia-cuda-runtime-cu11==11.7.99 nvidia-cuda-cupti-cu11==11.7.101" ;;
    2.?.* | 2.?) numpy="numpy<2" cuda="nvidia-cuda-runtime-cu12 nvidia-cuda-cupti-cu12" ;;
    *) numpy=numpy cuda="nvidia-cuda-runtime==13.* nvidia-cuda-cupti==13.*" ;;
    esac
    $pip --no-deps "torch==$release.*" >&2
    $pip filelock sympy networkx fsspec typing_extensions jinja2 "$numpy" >&2
    [ -z "$cuda" ] || $pip --no-deps $cuda >&2
    "$folder/bin/python" "$here/torch_stubs.py" >&2
    "$folder/bin/python" -c 'import torch; torch.zeros(3).sum()' >&2
    touch "$folder/ready"
fi
echo "$folder/bin/python"
