#!/bin/sh
# install.sh [VENV_DIR]: makes the optimizer's virtual environment and puts the adapter into it.
#
# Every package comes from the hashed locks beside this file. Runs again in no time:
# a stamp in the environment remembers the locks, another the adapter's sources.
# PYTHON names the interpreter; without it python3.12, python3.11 and python3 are tried.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../.venv}

say() { echo "adapter: $*" >&2; }

# digest prints one hash over names and contents of the files that were given.
digest() { "$venv/bin/python" -I - "$@" <<'PY'
import hashlib, pathlib, sys
h = hashlib.sha256(sys.version.encode())
for arg in sys.argv[1:]:
    root = pathlib.Path(arg)
    files = sorted(p for p in root.rglob("*.py")) if root.is_dir() else [root]
    for p in files:
        h.update(p.name.encode() + b"\0" + p.read_bytes() + b"\0")
print(h.hexdigest())
PY
}

usable() { "$1" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
	for p in ${PYTHON:-python3.12 python3.11 python3}; do
		if usable "$p"; then echo "$p"; return; fi
	done
	say "no Python 3.11 or newer with venv was found; install python3 and python3-venv, or set PYTHON"
	exit 1
}

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -I -c 'import pip' >/dev/null 2>&1; then
	python=$(find_python)
	if [ -e "$venv" ] && ! [ -f "$venv/pyvenv.cfg" ] && ! rmdir "$venv" 2>/dev/null; then
		say "$venv is there and is not a virtual environment; nothing was changed"
		exit 1
	fi
	say "making $venv with $python"
	rm -rf "$venv"
	"$python" -m venv "$venv"
fi

# Two runs at once take turns (flock is not there on every system; then they do not).
if command -v flock >/dev/null 2>&1; then
	exec 9>"$venv/.lock"
	flock 9
fi

locks=$(digest "$here/requirements.lock" "$here/requirements-dev.lock" "$here/requirements-build.lock")
if [ "$(cat "$venv/.locks" 2>/dev/null)" != "$locks" ]; then
	rm -f "$venv/.locks"
	extra=
	# The optimizer declares Python < 3.13 but is pure Python; say so instead of failing.
	if "$venv/bin/python" -I -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
		say "this Python is newer than the optimizer declares (3.11 or 3.12); continuing"
		extra=--ignore-requires-python
	fi
	say "installing the locked packages (about half a minute the first time)"
	pip() { "$venv/bin/python" -I -m pip --quiet --disable-pip-version-check install --require-hashes "$@"; }
	pip --only-binary :all: -r "$here/requirements-build.lock"
	# shellcheck disable=SC2086
	pip $extra --only-binary :all: --no-binary antlr4-python3-runtime --no-build-isolation \
		-r "$here/requirements.lock" -r "$here/requirements-dev.lock"
	echo "$locks" >"$venv/.locks"
fi

sources=$(digest "$here/src")
if [ "$(cat "$venv/.sources" 2>/dev/null)" != "$sources" ]; then
	site=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
	rm -rf "$site/promptlab_adapter.new"
	mkdir "$site/promptlab_adapter.new"
	cp "$here"/src/promptlab_adapter/*.py "$site/promptlab_adapter.new/"
	rm -rf "$site/promptlab_adapter"
	mv "$site/promptlab_adapter.new" "$site/promptlab_adapter"
	echo "$sources" >"$venv/.sources"
	say "ready in $venv"
fi
