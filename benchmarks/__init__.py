"""Benchmarks: kavka and Apache Kafka in turn, under one load. `python -m benchmarks.run --help`."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# Brokers are compared with brokers; what the console beside them costs, benchmarks/console.py tells.
os.environ.setdefault("KAVKA_NO_CONSOLE", "1")
