"""A sample of fuzzed sequences beside Apache Kafka 4.3: the same requests, right and wrong, the same answers.

More of them: python -m tests.fuzz.sequences.beside_kafka.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing
from tests.fuzz.sequences.beside_kafka import both, sequence

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SEQUENCES = range(1, 16)
STEPS = 40


def test_fuzzed_sequences_are_answered_as_apache_kafka_answers_them(tmp_path: Path) -> None:
    equal = 0
    try:
        with both(tmp_path) as addresses:
            for seed in SEQUENCES:
                steps, difference = sequence(*addresses, seed, STEPS)
                assert difference is None, str(difference)
                equal += steps
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert equal > len(SEQUENCES) * STEPS / 2, "most sequences end before they have asked anything"
