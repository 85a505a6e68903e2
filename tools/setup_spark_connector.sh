#!/usr/bin/env bash
# setup_spark_connector.sh PYTHON: Spark's own Kafka connector, the released jar as it is, with the jars that it needs and
# a stand-in for its delegation-token helper (tests/conformance/spark/stand_in), under $PEERS_HOME/spark-connector.
# Prints the jars, comma-separated, for spark.jars. PYTHON has pyspark. Quick when all is there; a sentence and exit
# code 3 where Java or Maven is missing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${1:-$root/.venv/bin/python}"
source="$root/tests/conformance/spark/stand_in"
home="${PEERS_HOME:-$HOME/.cache/kavka-peers}/spark-connector"
missing() { echo "$*" >&2; exit 3; }

command -v javac > /dev/null || missing "the stand-in needs a JDK (javac): apt-get install default-jdk-headless"
mkdir -p "$home"
exec 9> "$home/.lock"
flock 9 # two test runs may come here at once
if [ ! -f "$home/jars/.complete" ] || ! cmp -s "$source/pom.xml" "$home/jars/.complete"; then
  command -v mvn > /dev/null || missing "the connector needs Maven (mvn) to fetch it: apt-get install maven"
  rm -rf "$home/jars"
  # Spark's POM asks repositories of its own before Maven's default one, whose address Maven itself knows.
  model="$(find -L "$(dirname "$(readlink -f "$(command -v mvn)")")/.." /usr/share/maven/lib -name 'maven-model-builder-*.jar' 2> /dev/null | head -1)"
  [ -n "$model" ] || missing "found no maven-model-builder jar beside mvn, which names Maven's default repository"
  default="$(unzip -p "$model" org/apache/maven/model/pom-4.0.0.xml | sed -n 's:.*<url>\(.*\)</url>.*:\1:p' | head -1)"
  printf '<settings><mirrors><mirror><id>default</id><mirrorOf>*</mirrorOf><url>%s</url></mirror></mirrors></settings>' \
    "$default" > "$home/settings.xml"
  mvn -q -B -Dstyle.color=never -s "$home/settings.xml" -f "$source/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$home/jars" >&2 \
    || missing "Maven could not fetch Spark's connector"
  cp "$source/pom.xml" "$home/jars/.complete"
fi
stand_in="$home/token-helper-stand-in.jar"
if [ ! -f "$stand_in" ] || [ -n "$(find "$source" -name '*.java' -newer "$stand_in")" ]; then
  pyspark="$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" || missing "$python has no pyspark"
  rm -rf "$home/classes" && mkdir -p "$home/classes"
  javac -nowarn -d "$home/classes" -cp "$pyspark/jars/*:$home/jars/*" "$source"/*.java >&2
  jar cf "$stand_in.new" -C "$home/classes" .
  mv "$stand_in.new" "$stand_in"
fi
ls "$home"/jars/*.jar "$stand_in" | paste -sd,
