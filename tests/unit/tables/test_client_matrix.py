"""The table of clients in docs/clients.md is what the recorded results make, and reports of pytest are read right."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tools import client_matrix

REPORT = """<testsuites><testsuite>
<testcase classname="tests.conformance.clients.test_sarama" name="test_sarama[kavka-group resumes]"/>
<testcase classname="tests.conformance.clients.test_sarama" name="test_sarama[kavka-acks 1]"/>
<testcase classname="tests.conformance.clients.test_sarama" name="test_sarama[kavka-acks 0]"><failure/></testcase>
<testcase classname="tests.conformance.clients.test_sarama" name="test_sarama[kafka-zk-acks 0]"/>
<testcase classname="tests.conformance.clients.test_sarama"
  name="test_every_check_of_the_program_is_listed_here[kavka]"/>
<testcase classname="tests.conformance.clients.test_java"
  name="test_java[kafka-clients-3.9.2-kavka-three-brokers-topics refused]"/>
<testcase classname="tests.conformance.clients.test_java"
  name="test_java[kafka-clients-3.9.2-kavka-topics refused]"><skipped/></testcase>
<testcase classname="tests.conformance.clients.test_transactions" name="test_librdkafka_is_fenced[kavka]"/>
<testcase classname="tests.conformance.clients.test_share_franz_go" name="test_share_group[kavka-renewed]"/>
<testcase classname="tests.conformance.clients.test_share_groups" name="test_a_queue[kavka-three-brokers]"/>
<testcase classname="tests.integration.groups.test_share_groups" name="test_who_leaves"/>
<testcase classname="tests.conformance.wire.test_wire" name="test_wire[kavka-acks 1]"/>
</testsuite></testsuites>"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(client_matrix, "RESULTS", tmp_path / "results.json")
    (tmp_path / "report.xml").write_text(REPORT)
    return tmp_path / "report.xml"


def test_the_table_in_the_readme_is_what_was_recorded() -> None:
    assert client_matrix.main(["--check"]) == 0, "run: python tools/client_matrix.py"


def test_checks_are_told_by_client_brokers_and_column(report: Path) -> None:
    told = [(one.client, one.brokers, one.column, one.passed) for one in client_matrix.outcomes(report)]
    assert told == [
        ("sarama", "one", "Groups", True),
        ("sarama", "one", "Records", True),
        ("sarama", "one", "Records", False),
        ("sarama", "Apache Kafka 3.9", "Records", True),
        ("Java clients of Apache Kafka", "three", "Administration", True),
        ("confluent-kafka (librdkafka)", "one", "Transactions", True),
        ("franz-go", "one", "Share groups", True),
        ("Java clients of Apache Kafka", "three", "Share groups", True),
    ]


def test_a_failed_check_stands_in_the_table_until_it_is_recorded_anew(report: Path) -> None:
    client_matrix.record([report])
    (row,) = [line for line in client_matrix.table().splitlines() if line.startswith("| sarama")]
    assert row.endswith("| **1 of 2** | 1 |  |  |  |")
    assert ["acks 0"] in [row["failed"] for row in json.loads(client_matrix.RESULTS.read_text())]

    passing = report.with_name("later.xml")
    passing.write_text(REPORT.replace("<failure/>", ""))
    client_matrix.record([passing])
    (row,) = [line for line in client_matrix.table().splitlines() if line.startswith("| sarama")]
    assert row.endswith("| 2 | 1 |  |  |  |")


def test_what_a_report_does_not_tell_of_stays(report: Path) -> None:
    client_matrix.record([report])
    before = client_matrix.table()
    other = report.with_name("other.xml")
    other.write_text("<testsuites/>")
    client_matrix.record([other])
    assert client_matrix.table() == before


def test_columns_that_a_report_does_not_tell_of_stay(report: Path) -> None:
    client_matrix.record([report])
    other = report.with_name("share.xml")
    share = ElementTree.parse(report)
    (suite,) = share.getroot()
    for case in list(suite):
        if "share" not in case.get("classname", ""):
            suite.remove(case)
    share.write(other)
    before = client_matrix.table()
    client_matrix.record([other])
    assert client_matrix.table() == before
    failed = {row["client"]: row["failed"] for row in json.loads(client_matrix.RESULTS.read_text())}
    assert failed["sarama"] in ([], ["acks 0"])
