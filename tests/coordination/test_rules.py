"""Who may do what with a node of a secured tree, by its path."""

import pytest

from ottla.coordination import znodes
from ottla.coordination.rules import OPEN, READABLE, SECRET, rules_of


@pytest.mark.parametrize(
    "path",
    [
        "/config/users",
        "/config/users/alice",
        "/config/users/alice/clients/c",
        "/config/brokers",
        "/config/brokers/<default>",
        "/delegation_token/tokens",
        "/delegation_token/tokens/one",
        # As Kafka has it, and more is closed for it rather than less.
        "/config/users-of-old",
    ],
)
def test_secrets_are_for_their_creator_alone(path: str) -> None:
    assert rules_of(path) == SECRET
    assert [rule.id.scheme for rule in SECRET] == ["auth"]


@pytest.mark.parametrize(
    "path",
    [
        "/kafka",
        "/config",
        "/config/topics/t",
        "/config/changes/config_change_",
        "/brokers/ids/1",
        "/delegation_token",
        "/consumers/group",
        "/kafka-acl/Topic/t",
        *(path for path in znodes.PERSISTENT_PATHS if path not in ("/consumers", "/config/users", "/config/brokers")),
    ],
)
def test_everybody_may_read_other_nodes(path: str) -> None:
    assert rules_of(path) == READABLE
    creator, others = READABLE
    assert (creator.acl_list, creator.id.scheme) == (["ALL"], "auth")
    assert (others.acl_list, others.id.scheme) == (["READ"], "world")


def test_old_consumers_write_below_theirs() -> None:
    assert rules_of("/consumers") == OPEN
