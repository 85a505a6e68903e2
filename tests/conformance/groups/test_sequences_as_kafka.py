"""A sample of fuzzed sequences beside Apache Kafka 4.3: the same requests, right and wrong, the same answers.

More of them: python -m tests.fuzz.sequences.beside_kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apache_kafka import PeerMissing
from tests.fuzz.sequences.beside_kafka import Address, Play, both, sequence
from tests.fuzz.sequences.themes import THEMES

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SEQUENCES = {"groups": 10, "mixed": 5, "streams": 6, "share": 6, "administration": 6}
STEPS = 40


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    try:
        with both(tmp_path_factory.mktemp("beside")) as found:
            yield found
    except PeerMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("theme", SEQUENCES)
def test_fuzzed_sequences_are_answered_as_apache_kafka_answers_them(
    theme: str, addresses: tuple[Address, Address]
) -> None:
    play = Play(STEPS, THEMES[theme], salt=theme)
    equal = 0
    for seed in range(1, 1 + SEQUENCES[theme]):
        steps, differences = sequence(*addresses, seed, play)
        assert not differences, str(differences[0])
        equal += steps
    assert equal > SEQUENCES[theme] * STEPS / 2, "most sequences end before they have asked anything"
