#!/bin/sh
# Remakes the hashed lock from its .in file. Needs uv (pip install uv).
# Newer versions are taken with: ./lock.sh --upgrade
set -eu
cd "$(dirname "$0")"
uv pip compile requirements.in -o requirements.tmp --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --no-header -q "$@"
{ echo "# Made by ./lock.sh from requirements.in; do not edit."; cat requirements.tmp; } >requirements.lock
rm requirements.tmp
