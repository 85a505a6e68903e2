"""The loader: a handler for every API that is served, imported when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.broker.api.loader import handler, local_answer
from kavka.broker.api_table import SERVED
from kavka.protocol.api import ApiKey


@pytest.mark.parametrize("key", sorted(SERVED))
def test_every_api_that_is_served_has_the_handler_of_its_name(key: int) -> None:
    module = handler(ApiKey(key)).__module__.rpartition(".")[2]
    assert module.upper() == ApiKey(key).name


def test_an_api_that_is_not_served_has_no_handler() -> None:
    unserved = next(key for key in ApiKey if key not in SERVED)
    with pytest.raises(LookupError):
        handler(unserved)


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.CREATE_TOPICS,
    ],
)
def test_what_brokers_and_controllers_send_each_other_is_answered_without_a_connection(key: ApiKey) -> None:
    assert local_answer(key).__module__ == handler(key).__module__


def test_a_fetch_is_not_answered_without_a_connection() -> None:
    with pytest.raises(LookupError):
        local_answer(ApiKey.FETCH)


def test_handlers_are_imported_one_by_one_with_the_first_request() -> None:
    program = (
        "import sys, kavka.broker.dispatcher, kavka.broker.assembly.broker\n"
        "def loaded(): print(sorted(name for name in sys.modules if name.startswith('kavka.broker.api.')))\n"
        "loaded()\n"
        "from kavka.broker.api.loader import handler\n"
        "from kavka.protocol.api import ApiKey\n"
        "handler(ApiKey.HEARTBEAT)\n"
        "loaded()\n"
    )
    before, after = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert before == "[]"
    assert after == str(["kavka.broker.api.groups", "kavka.broker.api.groups.heartbeat", "kavka.broker.api.loader"])
