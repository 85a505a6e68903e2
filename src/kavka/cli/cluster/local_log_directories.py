"""Brokers' log directories that are on this machine: whose they are.

Decides nothing; a broker tells the paths of its directories, and another machine may have the same path.
"""

from __future__ import annotations

import os


def is_of_cluster(directory: str, cluster_id: str | None) -> bool:
    """Whether this machine has a log directory of this cluster at that path."""
    from kavka.log.decide.checkpoint import META_PROPERTIES, MalformedCheckpoint, parse_meta_properties

    try:
        with open(os.path.join(directory, META_PROPERTIES), "rb") as file:
            return parse_meta_properties(file.read()).cluster_id == cluster_id
    except (OSError, MalformedCheckpoint):
        return False
