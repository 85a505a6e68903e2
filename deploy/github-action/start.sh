#!/usr/bin/env bash
# What the action does: lays kavka into an environment of its own, starts a cluster that lives as long as the job, and
# waits until it serves. KAVKA_PACKAGE is what is installed, KAVKA_PROGRAM a kavka that is there already: for tests.
set -euo pipefail
place="${RUNNER_TEMP:-/tmp}/kavka"
mkdir -p "$place"
kavka="${KAVKA_PROGRAM:-}"
if [ -z "$kavka" ]; then
  python3 -m venv "$place/environment"
  "$place/environment/bin/pip" install --quiet --disable-pip-version-check \
    "${KAVKA_PACKAGE:-kavka${KAVKA_VERSION:+==$KAVKA_VERSION}}"
  kavka="$place/environment/bin/kavka"
fi
options=()
while IFS= read -r line; do
  [ -z "$line" ] || options+=(--set "$line")
done <<< "${KAVKA_SETTINGS:-}"
log="$place/kavka.log"
nohup "$kavka" up --brokers "${KAVKA_BROKERS:-1}" --port "${KAVKA_PORT:-9092}" --data "$place/data" --no-console \
  ${options[@]+"${options[@]}"} > "$log" 2>&1 < /dev/null &
process=$!
for _ in $(seq 300); do
  if grep -q "is ready\|are ready" "$log"; then
    last=$((${KAVKA_PORT:-9092} + ${KAVKA_BROKERS:-1} - 1))
    bootstrap="$(seq -s, -f "localhost:%.0f" "${KAVKA_PORT:-9092}" "$last")"
    echo "bootstrap=$bootstrap" >> "${GITHUB_OUTPUT:-/dev/null}"
    echo "kavka serves $bootstrap; its log is $log"
    exit 0
  fi
  kill -0 "$process" 2> /dev/null || break
  sleep 0.1
done
echo "::error::kavka did not start; its log follows"
cat "$log"
exit 1
