"""What a request about SCRAM credentials may change: as Apache Kafka's ZkAdminManager decides it."""

import pytest

from kavka.errors import ErrorCode, RequestError
from kavka.security.scram_credentials import Deletion, ScramCredential, Upsertion, Wish, changed, refusals

SALTED = bytes(32)


def upsertion(user: str = "alice", mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", SALTED)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ([upsertion()], {}),
        ([upsertion(iterations=16384), upsertion(mechanism=2)], {}),
        ([upsertion("")], {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}),
        (
            [upsertion("."), Deletion("..", 1)],
            {
                ".": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be '.' or '..'"),
                "..": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be '.' or '..'"),
            },
        ),
        ([Deletion("", 1)], {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}),
        ([upsertion(mechanism=0)], {"alice": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([Deletion("alice", 3)], {"alice": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")}),
        ([upsertion(iterations=4095)], {"alice": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")}),
        ([upsertion(iterations=16385)], {"alice": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")}),
        (
            [upsertion(), upsertion()],
            {
                "alice": (
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            },
        ),
        (
            [Deletion("alice", 1), upsertion()],
            {
                "alice": (
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            },
        ),
        (
            [upsertion(), upsertion("bob", 9)],
            {"bob": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")},
        ),
    ],
)
def test_what_is_refused_without_a_look(wishes: list[Wish], expected: dict[str, tuple[ErrorCode, str]]) -> None:
    assert {user: (refusal.code, refusal.message) for user, refusal in refusals(wishes).items()} == expected


def test_one_users_wishes_are_carried_out_together() -> None:
    before = {"SCRAM-SHA-256": "old", "producer_byte_rate": "1024"}
    after = changed(before, [Deletion("alice", 1), upsertion(mechanism=2, iterations=8192)])
    assert set(after) == {"SCRAM-SHA-512", "producer_byte_rate"}
    assert ScramCredential.decode(after["SCRAM-SHA-512"]).iterations == 8192
    assert before == {"SCRAM-SHA-256": "old", "producer_byte_rate": "1024"}


def test_what_is_not_there_cannot_be_deleted() -> None:
    with pytest.raises(RequestError) as refused:
        changed({"SCRAM-SHA-512": "x"}, [upsertion(), Deletion("alice", 1)])
    assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
