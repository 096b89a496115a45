#!/usr/bin/env bash
# Make the environment in which the peers run: other libraries, kept apart from ours.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv-peers
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
echo "installing pure-ldp and multi-freq-ldpy into $venv"
# xxhash<4 for both; scikit-learn and statsmodels are imported by pure-ldp, which does not say so.
"$venv/bin/python" -m pip install -qq --disable-pip-version-check \
    -c benchmarks/peers-constraints.txt \
    pure-ldp multi-freq-ldpy 'xxhash<4' scikit-learn statsmodels
"$venv/bin/python" -c 'import multi_freq_ldpy, pure_ldp.frequency_oracles'
