#!/usr/bin/env bash
# setup_kafkajs.sh: kafkajs and its codecs under .cache/kafkajs, for tests/conformance/clients/kafkajs.
# Prints that directory. Quick when all is there; a sentence and exit code 3 where Node or npm is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source="$root/tests/conformance/clients/kafkajs"
home="$root/.cache/kafkajs"
missing() { echo "$*" >&2; exit 3; }

command -v node > /dev/null || missing "kafkajs needs Node.js (node)"
command -v npm > /dev/null || missing "kafkajs needs npm"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if ! cmp -s "$source/package.json" "$home/package.json" || [ ! -f "$home/.complete" ]; then
  rm -f "$home/.complete"
  cp "$source/package.json" "$home/package.json"
  (cd "$home" && npm install --silent --no-audit --no-fund --ignore-scripts >&2) || missing "npm could not install kafkajs"
  touch "$home/.complete"
fi
cp "$source/checks.js" "$home/checks.js"
echo "$home"
