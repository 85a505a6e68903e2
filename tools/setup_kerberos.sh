#!/usr/bin/env bash
# setup_kerberos.sh: what the tests with a real KDC need, for `make conformance` alone: MIT's KDC and tools, and the package gssapi, which is
# compiled here (minutes). As root on a machine with apt; elsewhere those tests are skipped. No service is started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ ! -x /usr/sbin/krb5kdc ] || [ ! -x /usr/bin/kinit ] || [ ! -x /usr/bin/krb5-config ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "setup: the tests with Kerberos are skipped without krb5-kdc, krb5-admin-server, krb5-user and libkrb5-dev" >&2
    exit 0
  fi
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # with this level Debian's scripts start no service
  apt-get -qq update > /dev/null 2>&1 || true # an old index may still do
  apt-get -qq install -y --no-install-recommends gcc krb5-kdc krb5-admin-server krb5-user libkrb5-dev > /dev/null 2>&1 || {
    echo "setup: could not install Kerberos; the tests with it are skipped" >&2
    exit 0
  }
fi
.venv/bin/python -c 'import gssapi' 2> /dev/null \
  || .venv/bin/python -m pip install --quiet --disable-pip-version-check 'gssapi>=1.8' \
  || echo "setup: gssapi could not be compiled; the tests with Kerberos are skipped" >&2
