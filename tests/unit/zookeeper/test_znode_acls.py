"""Who may do what to Kafka's znodes where zookeeper.set.acl is on."""

from __future__ import annotations

import pytest

from kavka.zookeeper.port import OPEN_ACL
from kavka.zookeeper.znode_acls import CREATOR_ALL, WORLD_READ, open_acl, secure_acl


@pytest.mark.parametrize(
    "path", ["/", "/brokers/ids/1", "/config/topics/t", "/config/changes", "/controller", "/kafka-acl"]
)
def test_everybody_may_read_and_only_the_creator_may_write(path: str) -> None:
    assert secure_acl(path) == (CREATOR_ALL, WORLD_READ)


@pytest.mark.parametrize(
    "path",
    [
        "/config/users",
        "/config/users/alice/clients/c",
        "/config/brokers/1",
        "/delegation_token/tokens/t",
        "/kavka_unknown_users",
    ],
)
def test_what_is_secret_is_for_the_creator_alone(path: str) -> None:
    assert secure_acl(path) == (CREATOR_ALL,)


def test_the_old_consumers_path_stays_open_and_everything_where_the_setting_is_off() -> None:
    assert secure_acl("/consumers") == OPEN_ACL
    assert secure_acl("/consumers/g") != OPEN_ACL
    assert open_acl("/config/users") == OPEN_ACL
