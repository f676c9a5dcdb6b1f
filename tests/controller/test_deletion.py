from __future__ import annotations

from ottla.controller.deletion import Deletion


def topic() -> Deletion:
    return Deletion("t", {0: (1, 2), 1: (2, 3)})


def test_every_replica_is_asked_once() -> None:
    deletion = topic()
    assert deletion.next_requests({1, 2}) == {1: [0], 2: [0, 1]}
    assert deletion.next_requests({1, 2}) == {}
    assert deletion.next_requests({1, 2, 3}) == {3: [1]}


def test_complete_when_all_have_answered() -> None:
    deletion = topic()
    deletion.next_requests({1, 2, 3})
    deletion.deleted(1, [0])
    deletion.deleted(2, [0, 1])
    assert not deletion.is_complete
    deletion.deleted(3, [1])
    assert deletion.is_complete


def test_a_refusal_waits_for_the_brokers_return() -> None:
    deletion = topic()
    deletion.next_requests({1, 2, 3})
    deletion.failed(2, [1])
    assert deletion.next_requests({1, 2, 3}) == {}
    deletion.broker_came(2)
    # All that it has not deleted: the request that it did not answer went down with it.
    assert deletion.next_requests({1, 2, 3}) == {2: [0, 1]}


def test_what_was_asked_of_a_broker_that_left_is_asked_again() -> None:
    deletion = topic()
    deletion.next_requests({1, 2, 3})
    deletion.deleted(2, [0])
    deletion.broker_left(2)
    assert deletion.next_requests({1, 3}) == {}
    assert deletion.next_requests({1, 2, 3}) == {2: [1]}


def test_a_topic_without_replicas_is_complete_at_once() -> None:
    assert Deletion("t", {}).is_complete
