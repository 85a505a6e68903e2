"""Log directories that change hands between Apache Kafka and kavka."""

from __future__ import annotations

import sys
from pathlib import Path

# The modules beside this file, the records that every client sends, and a client of ZooKeeper: by their bare
# names.
HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "clients", HERE.parent / "zookeeper"):
    sys.path.insert(0, str(directory))
