#!/usr/bin/env bash
# setup_rust_client.sh: builds tests/conformance/clients/rust into .cache/rust-client and prints the program's path.
# Quick when it is there; a sentence and exit code 3 where Rust is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source="$root/tests/conformance/clients/rust"
home="$root/.cache/rust-client"
missing() { echo "$*" >&2; exit 3; }

command -v cargo > /dev/null || missing "rskafka needs Rust (cargo)"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
cd "$source"
cargo fetch --locked >&2 2> /dev/null || missing "cargo could not fetch rskafka"
cargo build --quiet --locked --offline --target-dir "$home" >&2
echo "$home/debug/checks"
