#!/bin/sh
# check.sh [VENV_DIR]: lint, format and tests of the adapter, in the environment that install.sh made.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "${1:-$here/../../.venv}" && pwd)
cd "$here"
"$venv/bin/python" -m ruff check --no-cache .
"$venv/bin/python" -m ruff format --no-cache --check .
exec "$venv/bin/python" -B -m pytest -q -p no:cacheprovider
