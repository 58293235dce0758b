#!/bin/sh
# The choke test: repeat one training, watch the memory of the whole system, and
# stop before the machine swaps itself to a halt. What the runs leave behind after
# their end is the leak. Prints the report, then the samples as CSV.
#
# usage: [NILO=path/to/nilo] [RUNS=5] [STEPS=10] examples/choke.sh
set -eu

nilo=${NILO:-nilo}
examples=$(dirname "$0")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/choke.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trace=$scratch/choke.nilo

status=0
"$nilo" run --repeat "${RUNS:-5}" --max-system-swap 500M -o "$trace" -- \
    python3 "$examples/tree_lstm.py" --steps "${STEPS:-10}" || status=$?

# 75: the swap limit stopped it, and then the report matters most.
[ "$status" -eq 0 ] || [ "$status" -eq 75 ] || exit "$status"

"$nilo" report "$trace"
"$nilo" export --format csv "$trace"
exit "$status"
