#!/usr/bin/env bash
# setup_pyodide.sh: Pyodide, CPython for web pages, which the playground runs in; kept in the user's cache, not in the tree.
# Prints its directory. Quick when it is there; a sentence and exit code 3 where npm is missing or cannot fetch it.
set -euo pipefail
version=314.0.7
home="${XDG_CACHE_HOME:-$HOME/.cache}/kavka-tools/pyodide-$version"
missing() { echo "$*" >&2; exit 3; }

mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two builds may come here at once
if [ ! -f "$home/.complete" ]; then
  command -v npm > /dev/null || missing "Pyodide needs npm"
  (cd "$home" && npm pack --silent "pyodide@$version" > /dev/null 2>&1) || missing "npm could not fetch Pyodide"
  tar -xzf "$home/pyodide-$version.tgz" -C "$home" --strip-components 1
  rm "$home/pyodide-$version.tgz"
  touch "$home/.complete"
fi
echo "$home"
