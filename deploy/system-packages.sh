#!/usr/bin/env bash
# Installs the system packages that tests need, or says how. Packages: a real
# Redis for the broker's tests, venv for the optimizer's Python, mkfs for real
# power cuts under the store.
set -euo pipefail
missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
PATH=$PATH:/usr/sbin:/sbin
command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}. Install them with this system's package manager." >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "missing: ${missing[*]}. Run: sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
  exit 1
fi
echo "installing system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# policy-rc.d keeps the package from starting a server of its own
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then printf '#!/bin/sh\nexit 101\n' >"$policy"; chmod 755 "$policy"; trap 'rm -f "$policy"' EXIT; fi
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
