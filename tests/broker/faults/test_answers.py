"""Answers with an error that are made of requests: for every API that is served, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.faults.answers import ANSWERED_FIRST, Refusal, refusal, split
from ottla.broker.faults.names import Names, named, shape
from ottla.broker.requests import SUPPORTED
from ottla.errors import NotLeaderOrFollower, RequestTimedOut
from ottla.wire.error_codes import error_codes
from ottla.wire.k01_fetch import FETCH
from ottla.wire.k03_metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH
from ottla.wire.k10_find_coordinator import FindCoordinatorRequest
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.k30_create_acls import CREATE_ACLS
from ottla.wire.k51_alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from ottla.wire.schema import Api, Message, StructSpec, describe

CODE = NotLeaderOrFollower.code
#: Fetch refuses by itself, and some are answered first.
MADE = [api for key, api in SUPPORTED.items() if key not in ANSWERED_FIRST | {FETCH.key}]
ALL = [pytest.param(api, version, id=f"{api.name}-{version}") for api in MADE for version in api.versions]


def filled(spec: StructSpec, version: int, number: int = 0) -> Message:
    """A message of this version with two different items in each array."""
    values: dict[str, Any] = {}
    for field in spec.fields:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        kind = field.type
        if isinstance(kind, StructSpec):
            values[field.name] = filled(kind, version, number)
        elif isinstance(kind, tuple):  # an array
            values[field.name] = [item(kind[1], version, number, place) for place in (0, 1)]
        elif kind == "string":
            values[field.name] = f"{field.name}-{number}"
    return spec.cls(**values)


def item(kind: Any, version: int, number: int, place: int) -> Any:
    if isinstance(kind, StructSpec):
        row: Any = filled(kind, version, 2 * number + place)
        for field in describe(type(row)).fields:
            if field.name in ("partition_index", "partition", "partition_id", "producer_id") and isinstance(
                field.type, str
            ):
                setattr(row, field.name, place)
        return row
    return f"row-{number}-{place}" if kind == "string" else place


def request(api: Api[Any, Any], version: int) -> Message:
    sent = filled(describe(api.request), version)
    return api.decode_request(version, api.encode_request(version, sent))


def answered(refused: Refusal, answer: Message) -> Message:
    """The answer as a client gets it."""
    api = refused.api
    return api.decode_response(refused.version, api.encode_response(refused.version, answer))


def codes(refused: Refusal, answer: Message) -> list[int]:
    """All error codes of the answer as a client gets it, but for one at the top where rows have them."""
    found = list(error_codes(answered(refused, answer)))
    return found[1:] if refused.in_rows and hasattr(answer, "error_code") else found


@pytest.mark.parametrize(("api", "version"), ALL)
def test_all_of_a_request_is_refused(api: Api[Any, Any], version: int) -> None:
    refused = refusal(api, version, CODE, Names())
    asked = request(api, version)
    found = codes(refused, refused.answer(asked))
    assert set(found) == {CODE}
    if refused.in_rows and (leaves := [one for one in named(asked) if one != Names()]):
        assert len(found) == len(leaves)
    elif not refused.in_rows:
        assert len(found) == 1


@pytest.mark.parametrize(("api", "version"), ALL)
def test_a_part_of_a_request_is_refused_and_joined_with_the_rest(api: Api[Any, Any], version: int) -> None:
    asked = request(api, version)
    about = next(named(asked))
    refused = refusal(api, version, CODE, about)
    if refused.about != about or not refused.in_rows or about._replace(group=None) == Names():
        return
    meant, others = split(asked, about)
    assert meant is not None
    assert others is not None
    assert [*named(meant)] == [about]
    assert [*named(others)] == [*named(asked)][1:]
    # The others are served, with an error by which they can be told.
    served = [Refusal(api, version, RequestTimedOut.code, one).answer(others) for one in named(others)]
    answer = refused.answer(meant)
    for each in served:
        answer = refused.join(each, answer)
    assert sorted(codes(refused, answer)) == sorted([CODE, *[RequestTimedOut.code] * len(served)])


@pytest.mark.parametrize(("api", "version"), ALL)
def test_an_answer_gets_an_error_in_the_rows_that_are_meant(api: Api[Any, Any], version: int) -> None:
    served = filled(describe(api.response), version)
    own = shape(api.request).own(filled(describe(api.request), version), Names())
    refused = refusal(api, version, CODE, Names())
    assert CODE in codes(refused, refused.amend(served, request(api, version)))
    for about in named(served):
        refused = refusal(api, version, CODE, about)
        if refused.about == about and refused.in_rows and about != Names() and about.group in (None, own.group):
            found = codes(refused, refused.amend(served, request(api, version)))
            assert found.count(CODE) == 1


def test_what_is_about_no_row_is_about_the_whole_request() -> None:
    whole = Names(group="g")
    for role, value in (("topic", "t"), ("partition", 0)):
        assert refusal(JOIN_GROUP, 7, CODE, whole._replace(**{role: value})).about == whole
    assert refusal(DELETE_TOPICS, 5, CODE, Names("t", 0)).about == Names("t")
    assert refusal(OFFSET_FETCH, 7, CODE, whole) == Refusal(OFFSET_FETCH, 7, CODE, whole)
    assert not refusal(OFFSET_FETCH, 7, CODE, whole).in_rows
    assert refusal(OFFSET_FETCH, 1, CODE, whole).in_rows


def test_who_is_refused_is_told_back() -> None:
    refused = Refusal(JOIN_GROUP, 7, CODE, Names())
    answer: Any = refused.answer(JoinGroupRequest(group_id="g", member_id="m"))
    assert (answer.error_code, answer.member_id, answer.generation_id) == (CODE, "m", -1)


def test_rows_of_plain_values() -> None:
    asked = DeleteTopicsRequest(topic_names=["a", "b", "c"])
    refused = Refusal(DELETE_TOPICS, 5, CODE, Names("b"))
    meant, others = split(asked, refused.about)
    assert others == DeleteTopicsRequest(topic_names=["a", "c"])
    assert meant is not None
    answer: Any = refused.answer(meant)
    assert [(row.name, row.error_code) for row in answer.responses] == [("b", CODE)]
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1]), AddPartitionsToTxnTopic(name="u", partitions=[1])]
    added: Any = Refusal(ADD_PARTITIONS_TO_TXN, 2, CODE, Names(partition=1)).answer(
        AddPartitionsToTxnRequest(topics=topics)
    )
    rows = [(topic.name, [(row.partition_index, row.error_code) for row in topic.results]) for topic in added.results]
    assert rows == [("t", [(1, CODE)]), ("u", [(1, CODE)])]


def test_rows_that_are_known_by_their_place() -> None:
    acls: Any = Refusal(CREATE_ACLS, 2, CODE, Names()).answer(request(CREATE_ACLS, 2))
    assert [row.error_code for row in acls.results] == [CODE, CODE]
    users: Any = Refusal(ALTER_USER_SCRAM_CREDENTIALS, 0, CODE, Names()).answer(
        request(ALTER_USER_SCRAM_CREDENTIALS, 0)
    )
    assert [(row.user, row.error_code) for row in users.results] == [("name-0", CODE), ("name-1", CODE)]


def test_joined_rows_of_one_topic_are_in_one_topic() -> None:
    asked = OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0), OffsetCommitRequestPartition(1)])],
    )
    refused = Refusal(OFFSET_COMMIT, 8, CODE, Names("t", 1, "g"))
    meant, others = split(asked, refused.about)
    assert meant is not None
    assert others == OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0)])]
    )
    served = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", [OffsetCommitResponsePartition(0, 0)])])
    assert refused.join(served, refused.answer(meant)) == OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                "t", [OffsetCommitResponsePartition(0, 0), OffsetCommitResponsePartition(1, CODE)]
            )
        ]
    )


def test_a_topic_and_a_partition_of_metadata() -> None:
    def served() -> MetadataResponse:
        partitions = [MetadataResponsePartition(partition_index=number, leader_id=1) for number in (0, 1)]
        topics = [MetadataResponseTopic(name=name, partitions=partitions) for name in ("a", "b")]
        return MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 9)], topics=topics)

    asked = MetadataRequest(topics=None)
    answer: Any = Refusal(METADATA, 9, CODE, Names("a")).amend(served(), asked)
    assert answer.brokers == served().brokers
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
        ("a", CODE, 0),
        ("b", 0, 2),
    ]
    answer = Refusal(METADATA, 9, CODE, Names("a", 1)).amend(served(), asked)
    rows = [(row.partition_index, row.error_code, row.leader_id) for row in answer.topics[0].partitions]
    assert (answer.topics[0].error_code, rows) == (0, [(0, 0, 1), (1, CODE, -1)])
    assert answer.topics[1] == served().topics[1]


def test_a_transactional_id_is_no_group() -> None:
    assert [*named(FindCoordinatorRequest(key="k", key_type=0))] == [Names(group="k")]
    assert [*named(FindCoordinatorRequest(key="k", key_type=1))] == [Names()]
