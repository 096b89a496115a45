#!/usr/bin/env bash
# Fuzz every decoder for a bounded time; only deliberate errors may come out of one.
#
#   scripts/fuzz.sh [SECONDS]            each target for so long, 10 seconds by default
#   scripts/fuzz.sh SECONDS TARGET...    these targets alone
#
# FUZZ_CORPUS names a folder to keep inputs in from run to run: set it for long runs.
# A planted mistake must be found as well, or the fuzzer itself is broken.
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

if [ $# -eq 0 ]; then
    mapfile -t names < <(PYTHONPATH="$root/src:$root/fuzz" "$PYTHON" -c \
        'import targets; print(*targets.TARGETS, sep="\n")')
else
    names=("$@")
fi

# report TARGET STATUS: print one line, or the end of its output where it failed.
report() {
    local name=$1 log=$1.log
    if [ "$name" = planted ] && [ "$2" -ne 0 ] && grep -q 'IndexError: planted' "$log"; then
        rm -f crash-*
        echo "planted mistake found"
    elif [ "$name" = planted ]; then
        tail -n 30 "$log"
        echo "fuzz: the planted mistake was not found"
        return 1
    elif [ "$2" -ne 0 ]; then
        tail -n 60 "$log"
        cp crash-* timeout-* oom-* "$root" 2>/dev/null || true
        echo "fuzz: $name failed; the input was copied here"
        return 1
    else
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
    fi
}

# lane NUMBER: fuzz its share of the targets in a folder of its own, where crashing inputs are left.
# A target keeps one core busy, so there is a lane for each core.
lane() {
    local name status place mine=() left
    if [ "$1" -eq 0 ]; then mine=(planted); fi
    for ((place = $1; place < ${#names[@]}; place += cores)); do mine+=("${names[place]}"); done
    mkdir "$scratch/$1"
    cd "$scratch/$1"
    left=${#mine[@]}
    while read -r name status; do
        if report "$name" "$status"; then left=$((left - 1)); fi
    done < <(PYTHONPATH="$root/src${PYTHONPATH:+:$PYTHONPATH}" "$PYTHON" "$root/fuzz/run.py" \
        "$seconds" "${FUZZ_CORPUS:-$scratch/corpus}" "${mine[@]}" 2>run.log)
    if [ "$left" -gt 0 ]; then
        tail -n 5 run.log
        return 1
    fi
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
