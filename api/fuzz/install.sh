#!/bin/sh
# install.sh [VENV_DIR]: makes the environment of the fuzzer of the HTTP API from
# the hashed lock beside this file. Runs again in no time while the lock is the same.
# PYTHON names the interpreter; without it python3.12, python3.11 and python3 are tried.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../.venv-fuzz}
if cmp -s "$here/requirements.lock" "$venv/.lock-installed"; then exit 0; fi
for python in ${PYTHON:-python3.12 python3.11 python3}; do
	"$python" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break
	python=
done
[ -n "$python" ] || { echo "api fuzz: no Python 3.11 or newer with venv was found; install python3 and python3-venv, or set PYTHON" >&2; exit 1; }
if [ -e "$venv" ] && ! [ -f "$venv/pyvenv.cfg" ]; then
	echo "api fuzz: $venv is there and is not a virtual environment; nothing was changed" >&2
	exit 1
fi
echo "api fuzz: making $venv with $python" >&2
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -I -m pip --quiet --disable-pip-version-check install --require-hashes --only-binary :all: -r "$here/requirements.lock"
cp "$here/requirements.lock" "$venv/.lock-installed"
