#!/usr/bin/env bash
# setup_java_clients.sh VERSION [PROGRAM]: what tests/conformance/clients/PROGRAM/pom.xml names of Kafka VERSION, and the
# compiled program, under .cache/PROGRAM-clients/VERSION; PROGRAM is java (the default) or streams.
# Prints the class path. Quick when all is there; a sentence and exit code 3 where Java or Maven is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
version="${1:?usage: setup_java_clients.sh VERSION [PROGRAM]}"
program="${2:-java}"
source="$root/tests/conformance/clients/$program"
home="$root/.cache/$program-clients/$version"
missing() { echo "$*" >&2; exit 3; }

command -v javac > /dev/null || missing "the Java clients need a JDK (javac): apt-get install default-jdk-headless"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -f "$home/jars/.complete" ] || ! cmp -s "$source/pom.xml" "$home/jars/.complete"; then
  command -v mvn > /dev/null || missing "the Java clients need Maven (mvn) to fetch those of Kafka $version: apt-get install maven"
  rm -rf "$home/jars"
  mvn -q -B -Dstyle.color=never -f "$source/pom.xml" -Dkafka.version="$version" dependency:copy-dependencies \
    -DoutputDirectory="$home/jars" >&2 || missing "Maven could not fetch the clients of Kafka $version"
  cp "$source/pom.xml" "$home/jars/.complete"
fi
if [ ! -f "$home/classes/.compiled" ] || [ -n "$(find "$source" -name '*.java' -newer "$home/classes/.compiled")" ]; then
  mkdir -p "$home/classes"
  javac -nowarn -d "$home/classes" -cp "$home/jars/*" "$source"/*.java 2> "$home/javac.log" || { cat "$home/javac.log" >&2; exit 1; }
  touch "$home/classes/.compiled"
fi
echo "$home/classes:$home/jars/*"
