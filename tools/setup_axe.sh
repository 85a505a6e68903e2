#!/usr/bin/env bash
# setup_axe.sh: axe-core, which tests of the console's pages look for barriers with; kept in the user's cache, not in the tree.
# Prints the file. Quick when it is there; a sentence and exit code 3 where npm is missing or cannot fetch it.
set -euo pipefail
version=4.14.1
home="${XDG_CACHE_HOME:-$HOME/.cache}/kavka-tools/axe-core-$version"
missing() { echo "$*" >&2; exit 3; }

mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -f "$home/axe.min.js" ]; then
  command -v npm > /dev/null || missing "axe-core needs npm"
  (cd "$home" && npm pack --silent "axe-core@$version" > /dev/null 2>&1) || missing "npm could not fetch axe-core"
  tar -xzf "$home/axe-core-$version.tgz" -C "$home" --strip-components 1 package/axe.min.js package/LICENSE
  rm "$home/axe-core-$version.tgz"
fi
echo "$home/axe.min.js"
