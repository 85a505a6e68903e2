#!/usr/bin/env bash
# setup_podman.sh: what tests build and run the image with: Podman with a storage of its own, and an image "kavka-base"
# of Debian with its Python, laid by debootstrap, since a registry of images may be out of reach. Both are kept in the
# user's cache. Prints the program to call. Quick when it is there; a sentence and exit code 3 where something is missing.
set -euo pipefail
home="${XDG_CACHE_HOME:-$HOME/.cache}/kavka-tools/podman"
packages="podman runc debootstrap netavark aardvark-dns iptables"
missing() { echo "$*" >&2; exit 3; }

[ "$(id -u)" = 0 ] || missing "the image is built and run as root only"
for program in podman runc debootstrap iptables; do # netavark publishes ports with iptables, and says only "no such file"
  command -v "$program" > /dev/null || missing "the image needs $program: apt-get install $packages"
done
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
# Limits as this process has them: a container may not raise them.
files="$(ulimit -Hn)"
cat > "$home/containers.conf" << END
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
cat > "$home/podman" << END
#!/bin/sh
CONTAINERS_CONF="$home/containers.conf" exec podman --root "$home/storage" --runroot "$home/run" --runtime runc "\$@"
END
chmod +x "$home/podman"
if ! "$home/podman" image exists localhost/kavka-base; then
  rm -rf "$home/base"
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$home/base" \
    http://deb.debian.org/debian >&2 || missing "debootstrap could not lay the base image"
  tar -C "$home/base" -c . | "$home/podman" import - kavka-base >&2
  rm -rf "$home/base"
fi
"$home/podman" run --rm --network none kavka-base true 2> "$home/why" || missing "no container runs here: $(tail -1 "$home/why")"
echo "$home/podman"
