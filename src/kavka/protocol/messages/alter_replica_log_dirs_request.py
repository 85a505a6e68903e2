"""AlterReplicaLogDirsRequest: request, API key 34, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class AlterReplicaLogDirTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class AlterReplicaLogDir(Struct):
    path: str = string("0+", default="")
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+", default_factory=list)


class AlterReplicaLogDirsRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=34):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+", default_factory=list)
