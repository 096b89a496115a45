#!/usr/bin/env bash
# Run the kernel tests on the C files built for each instruction set, with sanitizers and without.
#
#   scripts/sanitize.sh              every configuration that this machine can run
#   scripts/sanitize.sh --self-test  plant faults first: each must be found
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
library=$kernels/_kernels.so
ACTIVE='from faintly import kernels; assert kernels.active == "c", kernels.active
print(kernels.instructions())'
SANITIZERS=(-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -Wno-maybe-uninitialized) # at -O1 it warns about code that -O3 sees to be right

# compile FILE FLAGS...: make the object of a file of the copy, for one target alone.
compile() {
    "$CC" -std=gnu11 -Wall -Wextra -c -fPIC -DFAINTLY_ONE_TARGET "${@:2}" -o "$1.o" "$1"
}
# link: make the library of all objects.
link() {
    "$CC" -shared -fsanitize=address,undefined -o "$library" "$kernels"/*.o
}
# build FLAGS...: compile the copy, a file for each core at a time.
build() {
    export -f compile
    printf '%s\0' "$kernels"/*.c |
        CC=$CC xargs -0 -P "$(nproc)" -I{} bash -c 'compile "$@"' compile {} "${SANITIZERS[@]}" "$@"
    link
}

# run ARGS...: Python with the copy in place of the installed package.
run() {
    env PYTHONPATH="$scratch/src" FAINTLY_KERNEL=c "$PYTHON" "$@"
}
# run_sanitized ARGS...: the same with the sanitizers, which end the process at what they find.
run_sanitized() {
    LD_PRELOAD="$("$CC" -print-file-name=libasan.so) $("$CC" -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0:log_path="$scratch/found" \
        UBSAN_OPTIONS=print_stacktrace=1:log_path="$scratch/found" \
        PYTHONMALLOC=malloc run "$@"
}

# report NAME RUNNER: run the tests, and print one line, or everything where they fail. A library
# that does not load fails too: its tests would be skipped. Tests of numpy alone show nothing here.
report() {
    local name=$1 runner=$2 log=$scratch/log instructions
    if instructions=$("$runner" -c "$ACTIVE" 2>"$log") &&
        "$runner" -m pytest -q -n auto -p no:cacheprovider --hypothesis-profile=brief \
            -k "not numpy" "${TESTS[@]}" >"$log" 2>&1; then
        printf '%-30s %-9s %s\n' "$name" "$instructions" "$(tail -1 "$log")"
    else
        cat "$log" "$scratch"/found* 2>/dev/null || true
        echo "sanitize: FAILED: $name" >&2
        exit 1
    fi
}

# self_test NAME FILE CHANGE FINDING ARGS...: Python on a sanitized mutant must fail because of its
# fault. Only the object of the changed file is rebuilt; for a header, one that shows the fault.
self_test() {
    local log=$scratch/mutant name=$1 file=$2 change=$3 finding=$4
    local object=$kernels/${file/kernels.h/hashing.c}
    cp "$object.o" "$scratch/sound.o"
    sed -i "$change" "$kernels/$file"
    if cmp -s "$root/src/faintly/kernels/$file" "$kernels/$file"; then
        echo "sanitize: the mutant $name changes nothing; correct its pattern" >&2
        exit 1
    fi
    compile "$object" "${SANITIZERS[@]}"
    link
    if run_sanitized "${@:5}" >"$log" 2>&1 ||
        ! grep -Eqs "$finding" "$log" "$scratch"/found*; then
        cat "$log"
        echo "sanitize: FAILED: the mutant $name went unnoticed" >&2
        exit 1
    fi
    printf '%-30s %-9s found: %s\n' "mutant" "" "$name"
    rm -f "$scratch"/found*
    cp "$root/src/faintly/kernels/$file" "$kernels/$file"
    cp "$scratch/sound.o" "$object.o"
}

build
if [ "${1:-}" = --self-test ]; then
    self_test "a code too many" hashing.c \
        's/codes + start;/codes + start + 1;/' \
        'AddressSanitizer: heap-buffer-overflow' \
        -c 'import numpy as np; from faintly import kernels
kernels.map_codes(np.zeros(64, np.uint64), np.ones(1, np.uint32), np.ones(1, np.uint32), 8)'
    self_test "a shift too far" kernels.h \
        's/rotl(v1, 5)/rotl(v1, 32)/' \
        'runtime error: shift exponent' \
        -c 'import numpy as np; from faintly import kernels
kernels.hash_ids(1, np.zeros(64, np.uint64), 1)'
    # No sanitizer can see a wrong sum, so the tests must: here, of tables that are prefetched.
    ahead=test_scatter_add_to_a_table_that_no_cache_holds
    self_test "cells fetched, not added" tables.c \
        '/PREFETCH(tables + index/,/}/s/+= weight\[i\]/+= 0/' \
        "FAILED .*$ahead\[int64-1048576-25-c\]" \
        -m pytest -q -rf -p no:cacheprovider tests/unit/kernels/test_tables.py -k "$ahead"
fi

# sanitized NAME FLAGS...: the tests on a build for one instruction set, with the sanitizers.
sanitized() {
    build "${@:2}"
    report "$1, sanitized" run_sanitized
}

# has SET: whether this machine runs an instruction set.
has() {
    grep -qw "$1" /proc/cpuinfo 2>/dev/null
}

link
report "baseline, sanitized" run_sanitized
if [ "$(uname -m)" = x86_64 ]; then
    if has avx2; then
        sanitized "avx2" -mavx2
    else
        printf '%-30s not on this machine\n' "avx2"
    fi
    if has avx512f && has avx512bw && has avx512vl && has avx512dq && has avx512cd; then
        wide=(-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd)
        if has avx512_vpopcntdq; then
            wide+=(-mavx512vpopcntdq)
        fi
        sanitized "avx512" "${wide[@]}"
    else
        printf '%-30s not on this machine\n' "avx512"
    fi
fi
if command -v clang >/dev/null; then
    clang -std=gnu11 -O3 -shared -fPIC -o "$library" "$kernels"/*.c
    report "clang" run
else
    printf '%-30s not installed\n' "clang"
fi
