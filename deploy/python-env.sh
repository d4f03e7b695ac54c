#!/bin/sh
# python-env.sh LOCK VENV_DIR: makes a Python environment of exactly what a hashed
# lock names. Runs again in no time while the lock is the same.
# PYTHON names the interpreter; without it python3.12, python3.11 and python3 are tried.
set -eu
lock=$1
venv=$2
say() { echo "python environment: $*" >&2; }
if cmp -s "$lock" "$venv/.lock-installed"; then exit 0; fi
for python in ${PYTHON:-python3.12 python3.11 python3}; do
	"$python" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break
	python=
done
[ -n "$python" ] || { say "no Python 3.11 or newer with venv was found; install python3 and python3-venv, or set PYTHON"; exit 1; }
if [ -e "$venv" ] && ! [ -f "$venv/pyvenv.cfg" ]; then
	say "$venv is there and is not a virtual environment; nothing was changed"
	exit 1
fi
say "making $venv with $python"
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -I -m pip --quiet --disable-pip-version-check install --require-hashes --only-binary :all: -r "$lock"
cp "$lock" "$venv/.lock-installed"
