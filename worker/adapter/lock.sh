#!/bin/sh
# Remakes the three hashed locks from their .in files. Needs uv (pip install uv).
# Newer versions are taken with: ./lock.sh --upgrade
set -eu
cd "$(dirname "$0")"
for name in requirements requirements-dev requirements-build; do
	uv pip compile "$name.in" -o "$name.lock" --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header -q "$@"
	{ echo "# Made by ./lock.sh from $name.in; do not edit."; cat "$name.lock"; } >"$name.tmp"
	mv "$name.tmp" "$name.lock"
done
