#!/usr/bin/env bash
# Run the kernel tests on kernels.c built with sanitizers, then built for each instruction set.
#
#   scripts/sanitize.sh              every configuration that this machine can run
#   scripts/sanitize.sh --self-test  plant a write out of bounds first: it must be found
#
# PYTHON names an interpreter that has numpy, pytest and hypothesis; the project's own by default.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
PYTHON=${PYTHON:-$root/.venv/bin/python}
CC=${CC:-gcc}
TESTS=(tests/unit/kernels tests/property/test_kernel_properties.py)
if ! command -v "$CC" >/dev/null; then
    echo "sanitize: needs the C compiler $CC, which is not installed" >&2
    exit 1
fi
if ! "$PYTHON" -c 'import hypothesis, numpy, pytest' 2>/dev/null; then
    echo "sanitize: needs numpy, pytest and hypothesis; make test installs them, or set PYTHON" >&2
    exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r src "$scratch/src"
rm -f "$scratch"/src/faintly/kernels/_kernels*
kernels=$scratch/src/faintly/kernels
library=$kernels/_kernels$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
WHICH='from faintly import kernels; print(kernels.instructions())'
SANITIZERS=(-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -Wno-maybe-uninitialized) # at -O1 it warns of what -O3 sees is right

# build FLAGS...: compile the copy for one target alone.
build() {
    "$CC" -std=gnu11 -Wall -Wextra -shared -fPIC -DFAINTLY_ONE_TARGET "$@" -o "$library" \
        "$kernels/kernels.c"
}

# run ARGS...: Python with the copy in place of the installed package.
run() {
    env PYTHONPATH="$scratch/src" PYTHONDONTWRITEBYTECODE=1 FAINTLY_KERNEL=c "$PYTHON" "$@"
}
# run_sanitized ARGS...: the same with the sanitizers, which end the process at what they find.
run_sanitized() {
    LD_PRELOAD="$("$CC" -print-file-name=libasan.so) $("$CC" -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0:log_path="$scratch/found" \
        UBSAN_OPTIONS=print_stacktrace=1:log_path="$scratch/found" \
        PYTHONMALLOC=malloc run "$@"
}

# report NAME RUNNER: run the tests, and print one line, or everything where they fail.
report() {
    local name=$1 runner=$2 log=$scratch/log
    if "$runner" -m pytest -q -n auto -p no:cacheprovider "${TESTS[@]}" >"$log" 2>&1; then
        printf '%-22s %-9s %s\n' "$name" "$("$runner" -c "$WHICH")" "$(tail -1 "$log")"
    else
        cat "$log" "$scratch"/found* 2>/dev/null || true
        echo "sanitize: FAILED: $name" >&2
        exit 1
    fi
}

# self_test NAME CHANGE CALL FINDING: a mutant of kernels.c must be found, and for its own fault.
self_test() {
    local log=$scratch/mutant name=$1 change=$2 call=$3
    cp "$root/src/faintly/kernels/kernels.c" "$kernels/kernels.c"
    sed -i "$change" "$kernels/kernels.c"
    if cmp -s "$root/src/faintly/kernels/kernels.c" "$kernels/kernels.c"; then
        echo "sanitize: the mutant $name is no different; mend its pattern" >&2
        exit 1
    fi
    build "${SANITIZERS[@]}"
    if run_sanitized -c "$call" >"$log" 2>&1 || ! grep -Eqs "$4" "$log" "$scratch"/found*; then
        cat "$log"
        echo "sanitize: FAILED: the mutant $name went unnoticed" >&2
        exit 1
    fi
    printf '%-22s %-9s found: %s\n' "mutant" "" "$name"
    rm -f "$scratch"/found*
    cp "$root/src/faintly/kernels/kernels.c" "$kernels/kernels.c"
}

if [ "${1:-}" = --self-test ]; then
    self_test "a code too many" \
        's/codes + start;/codes + start + 1;/' \
        'import numpy as np; from faintly import kernels
kernels.map_codes(np.zeros(64, np.uint64), np.ones(1, np.uint32), np.ones(1, np.uint32), 8)' \
        'AddressSanitizer: heap-buffer-overflow'
    self_test "a shift too far" \
        's/rotl(v1, 5)/rotl(v1, 32)/' \
        'import numpy as np; from faintly import kernels
kernels.hash_ids(1, np.zeros(64, np.uint64), 1)' \
        'runtime error: shift exponent'
fi

build "${SANITIZERS[@]}"
report "address, undefined" run_sanitized
build -O3
report "baseline" run
case $(uname -m) in
x86_64)
    for set in avx2 avx512f; do
        if grep -qw "$set" /proc/cpuinfo 2>/dev/null; then
            build -O3 "-m$set"
            report "$set" run
        else
            printf '%-22s not on this machine\n' "$set"
        fi
    done
    ;;
esac
"$CC" -std=gnu11 -Wall -Wextra -O3 -shared -fPIC -o "$library" "$kernels/kernels.c"
report "chosen by the loader" run
