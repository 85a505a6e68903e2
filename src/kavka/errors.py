"""Errors: the protocol's codes, the failures of the world, and our own bugs.

Three kinds that are never mixed:

(a) protocol answers: an `ErrorCode`, returned per topic or partition. Source: Kafka's table of error codes.
(b) failures of the world (a disk, a peer, bytes that lie): exceptions below `KavkaError`, caught at a named boundary.
(c) our own bugs: `InvariantViolation`; the broker halts and restarts from what is durable.

    KavkaError
    ├── ProtocolViolation         bytes on a connection that are no Kafka request: the connection is closed
    │   └── FrameTooLarge
    ├── RequestError              a request that is answered with one error code for the whole of it
    ├── RecordsError              a batch of records that is refused, with the code to answer
    │   └── CorruptRecords
    ├── ConfigError               a setting that is unknown, malformed or out of range
    │   └── AddressUnavailable    an address that cannot be listened on, with why and who has it
    ├── StorageError              an input/output error: its log directory goes offline
    │   ├── LogDirectoryLocked
    │   ├── InconsistentMetadata  meta.properties or a checkpoint contradicts what was asked
    │   └── LogsElsewhere         log.dirs names new directories, and the broker's logs are in others
    ├── OffsetOutOfRange          a read outside [log start offset, log end offset]
    ├── ConnectionFailed          a peer that cannot be reached or went away; outcome of a request in flight unknown
    │   ├── ConnectionRefused     its machine answers, its process does not listen
    │   ├── HostUnknown           its name has no address
    │   └── NotKafka              it speaks another protocol
    └── ZooKeeperError            an answer of ZooKeeper; its kinds are in zookeeper/port.py
    InvariantViolation
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple


class ErrorCode(IntEnum):
    """Error codes of Kafka's protocol (all of Apache Kafka 4.3; 3.9 knows those up to 127)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @classmethod
    def answered(cls, code: int) -> ErrorCode:
        """The error that another broker answered with; UNKNOWN_SERVER_ERROR for a number that is not known here."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    @property
    def retriable(self) -> bool:
        """Whether a client may send the same request again."""
        return self in _RETRIABLE


NO_ERROR: Final = ErrorCode.NONE
"""For what looks at it with every request: on CPython 3.11 to find a member in its enum takes 0.15 us, a name 0.01."""

_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class KavkaError(Exception):
    """A failure that the world caused; the message carries expected, found and where."""


class ProtocolViolation(KavkaError):
    """Bytes that are no request or response of Kafka's protocol. The connection they came on is closed."""


class TlsInClear(ProtocolViolation):
    """A TLS handshake where frames are read as they come."""


class FrameTooLarge(ProtocolViolation):
    """A frame whose length is over what is allowed; `length` in bytes, 0 where it is not told."""

    def __init__(self, message: str, length: int = 0) -> None:
        super().__init__(message)
        self.length = length


MAX_MESSAGE_LENGTH: Final = 2_000
"""Characters of an error's message in an answer. What a request names may be as long as a string can be on the wire,
and a message that contains it would be longer."""


def clipped(message: str) -> str:
    """A message that fits into an answer, whatever names are in it."""
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[:MAX_MESSAGE_LENGTH] + "..."


class RequestError(KavkaError):
    """A request that is refused as a whole.

    `code` is what the answer carries in its (top-level or per-entry) error field. The message is `clipped`.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        message = clipped(message)
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class BadRecord(NamedTuple):
    """A well-formed record that its topic does not take. `record_index` counts those of the batch from 0."""

    record_index: int
    code: ErrorCode
    message: str


class RecordsError(KavkaError):
    """A batch of records that a log refuses; nothing of it was appended.

    `code` is the partition's answer. `bad_records` are those that are to blame, none where it is the batch as a whole.
    """

    def __init__(self, code: ErrorCode, message: str, *, bad_records: Sequence[BadRecord] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.bad_records = bad_records


class CorruptRecords(RecordsError):
    """Bytes that are no valid record batch: a wrong CRC, length or count."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class ConfigError(KavkaError):
    """A setting that is unknown, malformed or out of range."""


class AddressProblem(Enum):
    """Why an address cannot be listened on."""

    TAKEN = "taken"
    NOT_OURS = "not ours"
    """No address of this machine."""
    UNRESOLVED = "unresolved"
    FORBIDDEN = "forbidden"
    """A port that needs more rights."""
    OTHER = "other"


class AddressUnavailable(ConfigError):
    """An address that cannot be listened on. `what` was to listen there; `reason` is the system's word for why."""

    def __init__(
        self, problem: AddressProblem, host: str, port: int, reason: str, *, what: str = "", holder: str = ""
    ) -> None:
        self.problem, self.host, self.port, self.reason, self.what = problem, host, port, reason, what
        place = f"{f'[{host}]' if ':' in host else host or '*'}:{port}"
        because = {
            AddressProblem.TAKEN: f"port {port} is taken{f': {holder}' if holder else ''}",
            AddressProblem.NOT_OURS: f"{host} is not an address of this machine",
            AddressProblem.UNRESOLVED: f"the name {host} cannot be resolved ({reason})",
            AddressProblem.FORBIDDEN: f"port {port} needs more rights ({reason})",
        }.get(problem, reason)
        super().__init__(f"cannot listen on {place}{f' for {what}' if what else ''}: {because}")

    def held_by(self, holder: str) -> AddressUnavailable:
        """The same, with who has the port."""
        return AddressUnavailable(self.problem, self.host, self.port, self.reason, what=self.what, holder=holder)


class StorageError(KavkaError):
    """An input/output error on a log directory, which goes offline for it. `path` is the file or directory."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DiskFull(StorageError):
    """The disk, or what its owner may use of it, is full. Nothing is broken."""


class DamagedLog(StorageError):
    """One log has damaged records and takes no more. The disk works: its directory and all other logs go on."""


class UndecidedLog(StorageError):
    """One log may be older than a copy of it in a log directory that is offline, the `path`. It is whole, and is not
    served before all directories are there."""


class LogDirectoryLocked(StorageError):
    """Another broker holds the directory's `.lock`."""


class InconsistentMetadata(StorageError):
    """`meta.properties` or `partition.metadata` belongs to another broker, cluster or topic."""


class LogsContradict(InconsistentMetadata):
    """Logs that cannot both be right: of one partition in two log directories, of one topic with two ids."""


class DamagedMetadata(InconsistentMetadata):
    """`meta.properties` or `partition.metadata` cannot be read as such. A broker that knows its identity can write it
    again."""


class DamagedFile(StorageError):
    """A file that nothing else can replace, such as one of ZooKeeper's, is damaged. It was left as it is."""


class LinkLeadsNowhere(StorageError):
    """A directory is a link, and what it leads to is not there: perhaps a disk that is not mounted."""


class LogsElsewhere(StorageError):
    """The broker's logs are in directories that log.dirs does not name. `path` has them, separated by commas."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.message = message


class OffsetOutOfRange(KavkaError):
    """A read outside [log start offset, log end offset]."""


class ConnectionFailed(KavkaError):
    """A peer cannot be reached or the connection broke; whether a request in flight was carried out is unknown."""


class ConnectionRefused(ConnectionFailed):
    """The peer's machine answers, but nobody listens there: its process is not running, or not yet."""


class HostUnknown(ConnectionFailed):
    """The name of the peer's machine cannot be resolved."""


class NotKafka(ConnectionFailed):
    """Whoever listens there speaks another protocol."""


class NotTrusted(ConnectionFailed):
    """The peer's certificate cannot be verified: another authority signed it, it is for another name, or it is over."""


class ZooKeeperError(KavkaError):
    """An answer of ZooKeeper that is no success; its kinds are in zookeeper/port.py."""


class InvariantViolation(Exception):
    """One of our own rules is broken: a bug. The broker halts and restarts from what is durable."""
