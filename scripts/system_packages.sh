#!/usr/bin/env bash
# Install what CI needs beyond Python packages, where it is missing: a C compiler with sanitizers; curl,
# with which a test follows the page about running a collector; nginx, which a test puts before one; systemd,
# which checks the unit of packaging/; Java 17, which Spark runs on.
# Users need none of this: without a compiler faintly runs on numpy.
set -euo pipefail

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v curl >/dev/null || missing+=(curl)
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v systemd-analyze >/dev/null || missing+=(systemd)
{ [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; } || command -v java >/dev/null ||
    missing+=(openjdk-17-jre-headless)
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
run=()
[ "$(id -u)" -eq 0 ] || run=(sudo)
"${run[@]}" apt-get update -qq
"${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
