#!/usr/bin/env bash
# setup_compose.sh: Docker Compose, built with Go and kept in the user's cache. Prints the program to call. Quick when it is
# there; a sentence and exit code 3 where something is missing.
set -euo pipefail
version=v2.40.3
home="${XDG_CACHE_HOME:-$HOME/.cache}/kavka-tools/compose-$version"
missing() { echo "$*" >&2; exit 3; }

mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -x "$home/compose" ]; then
  command -v go > /dev/null || missing "Docker Compose is built with Go, which is not installed"
  cd "$home"
  [ -f go.mod ] || go mod init compose >&2
  go get "github.com/docker/compose/v2/cmd@$version" >&2 || missing "Go could not get Docker Compose $version"
  go build -o compose.new github.com/docker/compose/v2/cmd >&2 || missing "Docker Compose $version could not be built"
  mv compose.new compose
fi
echo "$home/compose"
