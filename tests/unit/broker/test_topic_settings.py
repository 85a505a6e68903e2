"""What a topic's settings become for its logs."""

from __future__ import annotations

import pytest

from kavka.broker.settings.topic_settings import log_config
from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig
from kavka.records.compression import Compression


@pytest.mark.parametrize(
    ("overrides", "codec", "level"),
    [
        ({}, None, None),
        ({"compression.gzip.level": "9"}, None, None),
        ({"compression.type": "gzip"}, Compression.GZIP, 2),
        ({"compression.type": "gzip", "compression.gzip.level": "-1"}, Compression.GZIP, -1),
        ({"compression.type": "gzip", "compression.zstd.level": "9"}, Compression.GZIP, 2),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, Compression.ZSTD, -131072),
        ({"compression.type": "zstd"}, Compression.ZSTD, 3),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, Compression.LZ4, 17),
        # Kafka's own compressor is its fast one at the default level, and only there.
        ({"compression.type": "lz4"}, Compression.LZ4, 1),
        ({"compression.type": "lz4", "compression.lz4.level": "8"}, Compression.LZ4, 8),
        ({"compression.type": "snappy"}, Compression.SNAPPY, None),
        ({"compression.type": "uncompressed"}, Compression.NONE, None),
    ],
    ids=str,
)
def test_a_topics_codec_has_the_level_of_the_topic_or_the_brokers(
    overrides: dict[str, str], codec: Compression | None, level: int | None
) -> None:
    broker = BrokerConfig.from_properties({"compression.gzip.level": "2"})
    made = log_config(TopicConfig(overrides, broker))
    assert (made.compression_type, made.compression_level) == (codec, level)
