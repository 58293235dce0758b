#!/bin/sh
# monitoring.sh: Debian's prometheus and promtool, and a Python with OpenTelemetry's own messages, made once in a cache
# folder; prints that folder. Fails, with the reason on stderr, where there is no archive or no index.
set -eu
folder=${NILO_TEST_CACHE:-$HOME/.cache/nilometer}/monitoring
mkdir -p "${folder%/*}"
exec 9>"$folder.lock"
flock 9
if [ ! -e "$folder/ready" ]; then
    rm -rf "$folder"
    mkdir -p "$folder/deb"
    cd "$folder/deb"
    # Unpacked, not installed: a service would be started.
    apt-get download -q prometheus >&2 || { apt-get update -q >&2 && apt-get download -q prometheus >&2; }
    dpkg-deb -x prometheus_*.deb unpacked
    mv unpacked/usr/bin/prometheus unpacked/usr/bin/promtool "$folder"
    cd "$folder"
    rm -rf deb
    python3 -m venv --clear python
    python/bin/python -m pip install --quiet --disable-pip-version-check opentelemetry-proto==1.27.0 >&2
    python/bin/python -c "import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
    ./promtool --version >&2
    touch ready
fi
echo "$folder"
