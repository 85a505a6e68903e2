#!/usr/bin/env bash
# setup_java_clients.sh VERSION: kafka-clients VERSION and the compiled checks under .cache/java-clients/VERSION.
# Prints the class path. Quick when all is there; a sentence and exit code 3 where Java or Maven is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
version="${1:?usage: setup_java_clients.sh VERSION}"
source="$root/tests/conformance/clients/java"
home="$root/.cache/java-clients/$version"
missing() { echo "$*" >&2; exit 3; }

command -v javac > /dev/null || missing "the Java clients need a JDK (javac): apt-get install default-jdk-headless"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -f "$home/jars/.complete" ] || ! cmp -s "$source/pom.xml" "$home/jars/.complete"; then
  command -v mvn > /dev/null || missing "the Java clients need Maven (mvn) to fetch kafka-clients $version: apt-get install maven"
  rm -rf "$home/jars"
  mvn -q -B -Dstyle.color=never -f "$source/pom.xml" -Dkafka.version="$version" dependency:copy-dependencies \
    -DoutputDirectory="$home/jars" >&2 || missing "Maven could not fetch kafka-clients $version"
  cp "$source/pom.xml" "$home/jars/.complete"
fi
if [ ! -f "$home/classes/Checks.class" ] || [ "$source/Checks.java" -nt "$home/classes/Checks.class" ]; then
  mkdir -p "$home/classes"
  javac -nowarn -d "$home/classes" -cp "$home/jars/*" "$source/Checks.java" 2> "$home/javac.log" || { cat "$home/javac.log" >&2; exit 1; }
fi
echo "$home/classes:$home/jars/*"
