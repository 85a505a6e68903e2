"""Each tool of Apache Kafka 3.9 and 4.3: how it is run against a broker of kavka and what it must print, or why it has
nothing to do there.

docs/clients.md has the table that tools/tool_table.py makes of this and of what `test_every_tool.py` found.
"""

from __future__ import annotations

from typing import Final, NamedTuple

RELEASES: Final = {"zk": "3.9", "kraft": "4.3"}
"""Mode of `tests.apache_kafka` to the release whose tools are meant."""


class Run(NamedTuple):
    """The words behind a tool's name, in which BROKER, TOPIC, LOG and FILE stand for those of the test, GROUP for
    a share group, READERS for a consumer group; and a
    pattern of what it prints. `text` is its standard input, or FILE's content."""

    words: str
    prints: str
    text: str = ""


B: Final = "--bootstrap-server BROKER"
TOOLS: Final[dict[str, Run | dict[str, Run]]] = {
    "acls": Run(f"{B} --add --allow-principal User:* --operation All --topic TOPIC", "Adding ACLs"),
    "broker-api-versions": Run(B, r"Produce\(0\)"),
    "client-metrics": Run(f"{B} --alter --name TOPIC --metrics org.apache.kafka. --interval 60000", "Altered client"),
    "cluster": Run(f"cluster-id {B}", "Cluster ID: "),
    "configs": Run(f"{B} --describe --entity-type topics --entity-name TOPIC", "Dynamic configs for topic"),
    "console-consumer": Run(
        f"{B} --topic TOPIC --group READERS --from-beginning --max-messages 1 --timeout-ms 60000",
        "Processed a total of 1",
    ),
    "console-producer": Run(f"{B} --topic TOPIC", "^[> ]*$", text="one record\n"),
    "console-share-consumer": Run(
        f"{B} --topic TOPIC --group GROUP --max-messages 1 --timeout-ms 60000", "Processed a total of 1"
    ),
    "consumer-groups": Run(f"{B} --describe --all-groups", "LAG|has no active members"),
    "consumer-perf-test": {
        "zk": Run(f"{B} --topic TOPIC --messages 1 --timeout 60000", "start.time"),
        "kraft": Run(f"{B} --topic TOPIC --num-records 1 --timeout 60000", "start.time"),
    },
    "delete-records": Run(
        f"{B} --offset-json-file FILE",
        "low_watermark",
        text='{"partitions": [{"topic": "TOPIC", "partition": 0, "offset": 0}], "version": 1}',
    ),
    "dump-log": Run("--files LOG", "Log starting offset|Starting offset"),
    "e2e-latency": {
        "zk": Run("BROKER TOPIC 3 1 10", "Avg latency"),
        "kraft": Run(f"{B} --topic TOPIC --num-records 3 --producer-acks 1 --record-size 10", "Avg latency"),
    },
    "features": Run(f"{B} describe", "Feature: group.version"),
    "get-offsets": Run(f"{B} --topic TOPIC", "TOPIC:0:"),
    "groups": Run(f"{B} --list", "GROUP"),
    "leader-election": Run(f"{B} --election-type preferred --topic TOPIC --partition 0", "[Ll]eader|elected|already"),
    "log-dirs": Run(f"{B} --describe", "Received log directory information"),
    "producer-perf-test": Run(
        "--topic TOPIC --num-records 10 --record-size 10 --throughput -1 --producer-props bootstrap.servers=BROKER",
        "10 records sent",
    ),
    "reassign-partitions": Run(f"{B} --list", "No partition reassignments found"),
    "share-consumer-perf-test": Run(f"{B} --topic TOPIC --group GROUP --num-records 1 --timeout 60000", "start.time"),
    "share-groups": Run(f"{B} --list", "GROUP"),
    "streams-application-reset": Run(f"{B} --application-id READERS-app --input-topics TOPIC --dry-run", "[Rr]eset"),
    "streams-groups": Run(f"{B} --list", ""),
    "topics": Run(f"{B} --describe --topic TOPIC", "PartitionCount: 1"),
    "transactions": Run(f"{B} list", "TransactionalId"),
    "verifiable-consumer": Run(
        f"{B} --topic TOPIC --group-id READERS-v --max-messages 1 --reset-policy earliest", "records_consumed"
    ),
    "verifiable-producer": Run(f"{B} --topic TOPIC --max-messages 1", '"acked":1'),
    "verifiable-share-consumer": Run(
        f"{B} --topic TOPIC --group-id GROUP-v --max-messages 1 --offset-reset-strategy earliest", "records_consumed"
    ),
}
"""In an order in which each finds what it needs: ORDER."""
ORDER: Final = ("topics", "verifiable-producer", "producer-perf-test", "console-producer", "console-consumer")
"""Tools that run first: records and groups are there for the others then."""

ELSEWHERE: Final = {
    "connect-distributed": ("tests/conformance/clients/test_connect.py", "Connect"),
    "connect-mirror-maker": ("tests/ecosystem/test_mirror_maker.py", "org.apache.kafka.connect.mirror.MirrorMaker"),
    "delegation-tokens": ("tests/conformance/security/test_tokens_as_kafka.py", "delegation-tokens"),
    "zookeeper-shell": ("tests/conformance/zookeeper/test_apache_on_kavka_zookeeper.py", "zookeeper-shell"),
}
"""Run by another test, because of what they need beside a broker: its file, and a word of that."""

NOT_APPLICABLE: Final = {
    "jmx": "reads the MBeans of a JVM; kavka's metrics are on `/metrics` ([metrics.md](metrics.md))",
    "metadata-quorum": "asks for KRaft's quorum; kavka's controller is elected through ZooKeeper",
    "metadata-shell": "reads KRaft's metadata log",
    "storage": "formats log directories for KRaft; a broker of kavka needs no formatting",
}
NOT_RUN: Final = {
    "mirror-maker": "gone since 4.0; MirrorMaker 2 is its successor",
    "replica-verification": "reads as a replica until it is stopped; not tried",
}
GONE: Final = {"mirror-maker": "kraft", "zookeeper-shell": "kraft"}
"""Of those that are not run here: the release that has no such tool."""
