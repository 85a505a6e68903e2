#!/usr/bin/env bash
# setup_go_client.sh CLIENT: builds tests/conformance/clients/CLIENT (franz-go, sarama) into .cache/CLIENT and prints the
# program's path. Quick when it is there; a sentence and exit code 3 where Go is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
client="${1:?usage: setup_go_client.sh CLIENT}"
source="$root/tests/conformance/clients/$client"
home="$root/.cache/$client"
missing() { echo "$*" >&2; exit 3; }

command -v go > /dev/null || missing "$client needs Go (go)"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -x "$home/checks" ] || [ -n "$(find "$source" -name '*.go' -newer "$home/checks" -o -name 'go.*' -newer "$home/checks")" ]; then
  (cd "$source" && GOFLAGS=-mod=mod go mod download >&2) || missing "Go could not fetch $client"
  (cd "$source" && go build -o "$home/checks" . >&2)
fi
echo "$home/checks"
