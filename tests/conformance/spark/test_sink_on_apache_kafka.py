"""The exactly-once sink on Apache Kafka: the same bad day as on kavka
(tests/integration/spark/test_kill_sink_tasks.py)."""

import pytest

from tests.apache_kafka import ApacheKafka
from tests.kit.bad_day import bad_day

pytestmark = [pytest.mark.thorough, pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.mark.parametrize("kafka", ["apache_kafka", "apache_kafka_kraft"])
def test_rows_are_there_once_after_a_bad_day(request: pytest.FixtureRequest, kafka: str) -> None:
    broker: ApacheKafka = request.getfixturevalue(kafka)
    bad_day(broker.bootstrap, 10, ["kill"] * 5 + ["pause"] * 3 + ["overtake"] * 2, seed=1)
