#!/usr/bin/env bash
# Fuzz every decoder for a bounded time; only deliberate errors may come out of one.
#
#   scripts/fuzz.sh [SECONDS]            each target for so long, 10 seconds by default
#   scripts/fuzz.sh SECONDS TARGET...    these targets alone
#
# FUZZ_CORPUS names a folder to keep inputs in from run to run: set it for long runs.
# First a planted mistake must be found, or the fuzzer itself is broken.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
PYTHON=${PYTHON:-$root/.venv/bin/python}
seconds=${1:-10}
shift || true
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! "$PYTHON" -c 'import atheris' 2>/dev/null; then
    echo "fuzz: needs atheris, which make test installs on Linux; or set PYTHON" >&2
    exit 1
fi

# fuzz TARGET SECONDS: one run, in the scratch folder, where crashing inputs are left.
fuzz() {
    (cd "$scratch" && PYTHONPATH="$root/src${PYTHONPATH:+:$PYTHONPATH}" \
        "$PYTHON" "$root/fuzz/run.py" "$1" "$2" "${FUZZ_CORPUS:-$scratch/corpus}/$1") \
        >"$scratch/$1.log" 2>&1
}

if fuzz planted 60 || ! grep -q 'IndexError: planted' "$scratch/planted.log"; then
    tail -n 30 "$scratch/planted.log"
    echo "fuzz: the planted mistake was not found"
    exit 1
fi
rm -f "$scratch"/crash-*
echo "planted mistake found"

if [ $# -eq 0 ]; then
    mapfile -t names < <(PYTHONPATH="$root/src:$root/fuzz" "$PYTHON" -c \
        'import targets; print(*targets.TARGETS, sep="\n")')
else
    names=("$@")
fi

# report TARGET: fuzz it, and print one line, or the end of its output where it fails.
report() {
    local name=$1
    if ! fuzz "$name" "$seconds"; then
        tail -n 60 "$scratch/$name.log"
        cp "$scratch"/crash-* "$scratch"/timeout-* "$scratch"/oom-* "$root" 2>/dev/null || true
        echo "fuzz: $name failed; the input was copied here"
        return 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$name.log")
    echo "$name: $runs inputs, nothing found"
}

# A target keeps one core busy, so there is a lane for each core.
lane() {
    local place
    for ((place = $1; place < ${#names[@]}; place += cores)); do report "${names[place]}"; done
}
cores=$(nproc)
lanes=()
for ((first = 0; first < cores; first++)); do
    lane "$first" &
    lanes+=($!)
done
status=0
for each in "${lanes[@]}"; do wait "$each" || status=1; done
exit "$status"
