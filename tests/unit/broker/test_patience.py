"""Requests that ZooKeeper does not answer: they are answered themselves, and say so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api import zookeeper_patience
from kavka.broker.api.configs import alter_client_quotas, describe_client_quotas
from kavka.broker.api.security import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_user_scram_credentials,
)
from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages.alter_client_quotas_request import EntityData, EntryData, OpData
from kavka.protocol.messages.alter_user_scram_credentials_request import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kavka.protocol.messages.create_acls_request import AclCreation
from kavka.protocol.messages.delete_acls_request import DeleteAclsFilter
from kavka.zookeeper.port import OutcomeUnknown, RequestTooLarge

LATE = ErrorCode.REQUEST_TIMED_OUT


class Silent:
    """Whatever is asked of it, nothing comes back."""

    def __init__(self) -> None:
        self.begun = 0
        self.given_up = 0

    def __getattr__(self, name: str) -> Any:
        async def ask(*arguments: Any, **named: Any) -> None:
            self.begun += 1
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.given_up += 1
                raise

        return ask


def acl(principal: str) -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def ask(monkeypatch: pytest.MonkeyPatch, handler: Any, message: Any) -> tuple[Any, Silent]:
    monkeypatch.setattr(zookeeper_patience, "PATIENCE_S", 0.05)
    silent = Silent()
    broker = SimpleNamespace(
        controller=SimpleNamespace(is_active=True),
        configs=silent,
        quota_store=silent,
        authorization=SimpleNamespace(acls=silent),
    )
    request = SimpleNamespace(context=SimpleNamespace(principal="User:admin"))

    async def answered() -> Any:
        return await asyncio.wait_for(handler.handle(broker, request, message), 10)

    return asyncio.run(answered()), silent


def test_changes_of_users_are_answered_and_no_more_is_begun_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deletions = [ScramCredentialDeletion(name=f"u{number}", mechanism=1) for number in range(50)]
    message = m.AlterUserScramCredentialsRequest(deletions=deletions)
    answer, silent = ask(monkeypatch, alter_user_scram_credentials, message)
    assert {result.error_code for result in answer.results} == {LATE}
    assert "ZooKeeper did not answer" in answer.results[49].error_message
    assert (silent.begun, silent.given_up) == (1, 1)


def test_a_salt_that_zookeeper_does_not_take_is_refused_and_not_called_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class TakesNothing:
        async def change_user(self, *arguments: Any) -> None:
            raise RequestTooLarge("/config/users/u")

    broker = SimpleNamespace(controller=SimpleNamespace(is_active=True), configs=TakesNothing())
    request = SimpleNamespace(context=SimpleNamespace(principal="User:admin"))
    wish = ScramCredentialUpsertion(name="u", mechanism=1, iterations=4096, salt=bytes(2_000_000), salted_password=b"s")
    message: Any = m.AlterUserScramCredentialsRequest(upsertions=[wish])

    async def answered() -> Any:
        return await alter_user_scram_credentials.handle(broker, request, message)  # type: ignore[arg-type, misc]

    (result,) = asyncio.run(answered()).results
    assert result.error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert "too long" in result.error_message


def test_changes_of_quotas_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryData(
            entity=[EntityData(entity_type="user", entity_name=f"u{number}")],
            ops=[OpData(key="producer_byte_rate", value=1.0)],
        )
        for number in range(3)
    ]
    answer, silent = ask(monkeypatch, alter_client_quotas, m.AlterClientQuotasRequest(entries=entries))
    assert [entry.error_code for entry in answer.entries] == [LATE] * 3
    assert silent.begun == 1


def test_questions_for_users_and_quotas_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for handler, message in (
        (describe_user_scram_credentials, m.DescribeUserScramCredentialsRequest(users=None)),
        (describe_client_quotas, m.DescribeClientQuotasRequest()),
    ):
        answer, silent = ask(monkeypatch, handler, message)
        assert answer.error_code == LATE
        assert silent.given_up == 1


def test_new_access_control_lists_are_answered_and_wrong_ones_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = m.CreateAclsRequest(creations=[acl("User:a"), acl("nobody")])
    answer, _ = ask(monkeypatch, create_acls, message)
    assert [result.error_code for result in answer.results] == [LATE, ErrorCode.INVALID_REQUEST]


def test_removals_of_access_control_lists_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    good = DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=3, operation=3, permission_type=3)
    unknown = DeleteAclsFilter(resource_type_filter=99, pattern_type_filter=3, operation=3, permission_type=3)
    answer, _ = ask(monkeypatch, delete_acls, m.DeleteAclsRequest(filters=[good, unknown]))
    assert [result.error_code for result in answer.filter_results] == [LATE, ErrorCode.INVALID_REQUEST]


def test_what_comes_in_time_is_given_and_what_comes_too_late_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_patience, "PATIENCE_S", 0.05)
    begun = []

    async def work() -> int:
        begun.append(1)
        return 7

    async def run() -> None:
        waits = zookeeper_patience.Patience()
        assert await waits.wait(work()) == 7
        await asyncio.sleep(0.1)
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            await waits.wait(work())

    asyncio.run(run())
    assert begun == [1]
