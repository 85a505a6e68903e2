"""kavka: Kafka's classic core as a Python package."""

__version__ = "0.1.0"
