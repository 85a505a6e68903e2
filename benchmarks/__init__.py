"""Benchmarks: kavka and Apache Kafka in turn, under one load. `python -m benchmarks.run --help`."""

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# The modules that run brokers as processes belong to the tests, which import them by their bare names.
sys.path.insert(0, str(PROJECT / "tests"))

# Brokers are compared with brokers; what the console beside them costs, benchmarks/console.py tells.
os.environ.setdefault("KAVKA_NO_CONSOLE", "1")
