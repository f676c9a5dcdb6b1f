"""Groups: members that join, stay, leave and are fenced, and their offsets."""

from __future__ import annotations

from typing import Any

from tests.compat.conversations.common import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC,
)
from tests.compat.talk import Talk

RANGE = {"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\0\0\0\0"}
ROUND = {"name": "roundrobin", "metadata": b"\0\0\0\0\0\1\0\1t\0\0\0\0"}


def joining(group: str, member: str = "", **fields: object) -> dict:
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [RANGE],
        **fields,
    }


def join_refused(talk: Talk) -> None:
    talk.coordinator("jr")
    for version in range(8):
        for group, session_ms in (("", 10_000), ("jr", 99), ("jr", 1_800_001), ("jr", 0), ("jr", -1), ("", 0)):
            talk.ask(JOIN, version, **joining(group, session_timeout_ms=session_ms))
        talk.ask(JOIN, version, **joining("jr", "nobody"))
        talk.ask(JOIN, version, **joining("", "nobody"))
        talk.ask(JOIN, version, **joining("jr", protocols=[]))
        talk.ask(JOIN, version, **joining("jr", protocol_type=""))
        talk.ask(JOIN, version, **joining("jr", "nobody", protocols=[]))
    talk.ask(JOIN, 5, **joining("jr", "nobody", group_instance_id="i"))
    talk.ask(JOIN, 5, **joining("jr", group_instance_id=""))
    talk.ask(JOIN, 5, **joining("jr", group_instance_id="a b"))
    talk.ask(JOIN, 5, **joining("jr", group_instance_id="."))
    talk.ask(JOIN, 5, **joining("jr", group_instance_id="x" * 250))
    talk.ask(DESCRIBE_GROUPS, 5, groups=["jr"])


def one_member(talk: Talk) -> None:
    """One member's way, with what goes wrong at each step."""
    talk.coordinator("om")
    member = member_joins(talk)
    me = {"group_id": "om", "generation_id": 1, "member_id": member}
    member_syncs(talk, me)
    member_is_there(talk, me)
    others_come(talk, member)
    member_leaves(talk, member)
    member_is_gone(talk, me)


def member_joins(talk: Talk) -> str:
    """In two steps. Returns the member's id."""
    first = talk.ask(JOIN, 7, **joining("om", rebalance_timeout_ms=5000))
    pending = {"group_id": "om", "generation_id": -1, "member_id": first.member_id}
    talk.ask(HEARTBEAT, 4, **pending)
    talk.ask(SYNC, 5, **pending, protocol_type="consumer", protocol_name="range")
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om"])
    talk.ask(LIST_GROUPS, 4, states_filter=["Empty", "Dead"])
    joined = talk.ask(JOIN, 7, **joining("om", first.member_id, rebalance_timeout_ms=5000))
    return joined.member_id


def member_syncs(talk: Talk, me: dict) -> None:
    talk.ask(HEARTBEAT, 4, **me)
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om", "om"])
    commit(talk, **me)
    for kind, name in (
        ("", ""),
        ("consumer", "x"),
        ("connect", "range"),
        ("consumer", None),
        (None, "range"),
        (None, None),
    ):
        talk.ask(SYNC, 5, **{**me, "generation_id": 7}, protocol_type=kind, protocol_name=name)
        talk.ask(SYNC, 5, **{**me, "member_id": "x"}, protocol_type=kind, protocol_name=name)
    talk.ask(SYNC, 5, **me, protocol_type="consumer", protocol_name="x")
    talk.ask(SYNC, 5, **me, protocol_type="connect", protocol_name="range")
    talk.ask(SYNC, 5, **{**me, "group_id": ""}, protocol_type="consumer", protocol_name="range")
    talk.ask(SYNC, 5, **{**me, "group_id": "none"}, protocol_type="consumer", protocol_name="range")
    mine = [{"member_id": me["member_id"], "assignment": b"mine"}, {"member_id": "other", "assignment": b"theirs"}]
    talk.ask(SYNC, 5, **me, protocol_type="consumer", protocol_name="range", assignments=mine)
    talk.ask(SYNC, 3, **me, assignments=[])


def member_is_there(talk: Talk, me: dict) -> None:
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om"])
    talk.ask(DESCRIBE_GROUPS, 0, groups=["om"])
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om", "nope", ""], include_authorized_operations=True)
    talk.ask(DESCRIBE_GROUPS, 5, groups=[])
    for generation in (-1, 0, 2):
        talk.ask(HEARTBEAT, 4, **{**me, "generation_id": generation})
        commit(talk, **{**me, "generation_id": generation})
    for member in ("", "x"):
        talk.ask(HEARTBEAT, 4, **{**me, "member_id": member})
        commit(talk, **{**me, "member_id": member})
        commit(talk, **{**me, "member_id": member, "generation_id": -1})
    talk.ask(HEARTBEAT, 4, **me, group_instance_id="i")
    talk.ask(HEARTBEAT, 4, **{**me, "group_id": ""})
    talk.ask(HEARTBEAT, 4, **{**me, "group_id": "none"})
    commit(talk, **me)
    commit(talk, **me, group_instance_id="i")


def others_come(talk: Talk, member: str) -> None:
    """Who joins with something else, and who asks for groups by their states."""
    talk.ask(JOIN, 7, **joining("om", protocol_type="connect"))
    talk.ask(JOIN, 7, **joining("om", protocols=[ROUND]))
    talk.ask(JOIN, 7, **joining("om", member, protocols=[ROUND], protocol_type="connect"))
    talk.ask(JOIN, 7, **joining("om", member, group_instance_id="i"))
    talk.ask(DELETE_GROUPS, 2, groups_names=["om", "none", "", "om"])
    talk.ask(LIST_GROUPS, 4, states_filter=["Stable"])
    talk.ask(LIST_GROUPS, 4, states_filter=["stable"])
    talk.ask(LIST_GROUPS, 4, states_filter=["nonsense"])


def member_leaves(talk: Talk, member: str) -> None:
    talk.ask(LEAVE, 4, group_id="om", members=[])
    talk.ask(LEAVE, 4, group_id="om", members=[{"member_id": "x"}, {"member_id": "", "group_instance_id": "i"}])
    talk.ask(LEAVE, 4, group_id="om", members=[{"member_id": member, "group_instance_id": "i"}])
    talk.ask(LEAVE, 2, group_id="om", member_id="x")
    talk.ask(LEAVE, 2, group_id="", member_id="x")
    talk.ask(LEAVE, 2, group_id="none", member_id="x")
    talk.ask(LEAVE, 4, group_id="", members=[{"member_id": "x"}])
    talk.ask(LEAVE, 4, group_id="none", members=[{"member_id": "x"}])
    talk.ask(LEAVE, 4, group_id="om", members=[{"member_id": member}])


def member_is_gone(talk: Talk, me: dict) -> None:
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om"])
    talk.ask(LIST_GROUPS, 4, states_filter=["Empty"])
    talk.ask(LIST_GROUPS, 3)
    talk.ask(HEARTBEAT, 4, **me)
    talk.ask(SYNC, 5, **me)
    commit(talk, **me)
    commit(talk, **{**me, "generation_id": -1})
    commit(talk, group_id="om", generation_id=-1, member_id="")
    commit(talk, group_id="om", generation_id=2, member_id="")
    talk.ask(JOIN, 7, **joining("om", me["member_id"]))
    talk.ask(DELETE_GROUPS, 2, groups_names=["om"])
    talk.ask(DELETE_GROUPS, 0, groups_names=["om"])
    talk.ask(DESCRIBE_GROUPS, 5, groups=["om"])


def old_join(talk: Talk) -> None:
    """Versions without the second step: one rebalance after the other."""
    talk.coordinator("oj")
    first = talk.ask(JOIN, 0, by="a", **joining("oj", protocols=[ROUND, RANGE]))
    me = {"group_id": "oj", "member_id": first.member_id}
    talk.ask(SYNC, 0, by="a", **me, generation_id=1, assignments=[{"member_id": first.member_id, "assignment": b"1"}])
    talk.send(JOIN, 1, by="b", **joining("oj", protocols=[RANGE, ROUND], rebalance_timeout_ms=5000))
    talk.unheard(HEARTBEAT, 0, lambda answer: answer.error_code == 27, by="a", **me, generation_id=1)
    talk.ask(DESCRIBE_GROUPS, 3, groups=["oj"])
    talk.ask(SYNC, 0, by="a", **me, generation_id=1)
    commit(talk, by="a", **me, generation_id=1)
    again = talk.ask(
        JOIN, 1, by="a", **joining("oj", first.member_id, protocols=[ROUND, RANGE], rebalance_timeout_ms=5000)
    )
    second = talk.receive("b")
    commit(talk, by="a", **me, generation_id=2)
    talk.send(SYNC, 0, by="b", group_id="oj", generation_id=2, member_id=second.member_id)
    talk.unheard(
        DESCRIBE_GROUPS, 0, lambda answer: answer.groups[0].group_state == "CompletingRebalance", groups=["oj"]
    )
    talk.ask(JOIN, 1, by="a", **joining("oj", first.member_id, protocols=[ROUND, RANGE], rebalance_timeout_ms=5000))
    rows = [{"member_id": first.member_id, "assignment": b"1"}, {"member_id": second.member_id, "assignment": b"2"}]
    talk.ask(SYNC, 0, by="a", **me, generation_id=2, assignments=rows)
    talk.receive("b")
    talk.ask(JOIN, 1, by="b", **joining("oj", second.member_id, protocols=[RANGE, ROUND], rebalance_timeout_ms=5000))
    talk.ask(DESCRIBE_GROUPS, 5, groups=["oj"])
    assert again.leader
    talk.ask(LEAVE, 1, by="a", **me)
    talk.ask(LEAVE, 1, by="a", **me)
    talk.ask(HEARTBEAT, 0, by="b", group_id="oj", generation_id=2, member_id=second.member_id)
    talk.ask(LEAVE, 0, by="b", group_id="oj", member_id=second.member_id)


def static_members(talk: Talk) -> None:
    talk.coordinator("sm")
    first = talk.ask(JOIN, 5, by="a", **joining("sm", group_instance_id="one", rebalance_timeout_ms=3000))
    rows = [{"member_id": first.member_id, "assignment": b"1"}]
    me = {"group_id": "sm", "generation_id": 1, "member_id": first.member_id, "group_instance_id": "one"}
    talk.ask(SYNC, 3, by="a", **me, assignments=rows)
    talk.ask(DESCRIBE_GROUPS, 4, groups=["sm"])
    talk.ask(HEARTBEAT, 3, **{**me, "group_instance_id": "two"})
    talk.ask(HEARTBEAT, 3, **{**me, "member_id": "x"})
    talk.ask(HEARTBEAT, 3, **{**me, "member_id": ""})
    talk.ask(HEARTBEAT, 3, **{**me, "member_id": "x", "generation_id": 7})
    commit(talk, **{**me, "member_id": "x"})
    commit(talk, **{**me, "group_instance_id": "two"})
    talk.ask(SYNC, 3, **{**me, "member_id": "x"})
    talk.ask(SYNC, 3, **{**me, "group_instance_id": "two"})
    talk.ask(JOIN, 5, **joining("sm", "x", group_instance_id="one"))
    talk.ask(JOIN, 5, **joining("sm", "x", group_instance_id="two"))
    back = talk.ask(JOIN, 5, by="b", **joining("sm", group_instance_id="one", rebalance_timeout_ms=3000))
    talk.ask(SYNC, 3, by="b", **{**me, "member_id": back.member_id}, assignments=[])
    for version in (4, 5):
        talk.ask(DESCRIBE_GROUPS, version, groups=["sm"])
    talk.ask(HEARTBEAT, 3, **me)
    talk.ask(HEARTBEAT, 3, **{**me, "member_id": back.member_id})
    talk.ask(JOIN, 5, **joining("sm", first.member_id, group_instance_id="one"))
    commit(talk, **me)
    leaving = [
        {"member_id": first.member_id, "group_instance_id": "one"},
        {"member_id": "", "group_instance_id": "two"},
    ]
    talk.ask(LEAVE, 3, group_id="sm", members=leaving)
    talk.ask(LEAVE, 3, group_id="sm", members=[{"member_id": "x", "group_instance_id": "one"}])
    talk.ask(LEAVE, 3, group_id="sm", members=[{"member_id": "", "group_instance_id": "one"}] * 2)
    talk.ask(DESCRIBE_GROUPS, 4, groups=["sm"])


def commit(
    talk: Talk, version: int = 8, topic: str = "t", partition: int = 0, by: str = "client", **fields: object
) -> None:
    row = {"partition_index": partition, "committed_offset": fields.pop("offset", 5)}
    row |= {name: fields.pop(name) for name in ("committed_metadata", "committed_leader_epoch") if name in fields}
    fields.setdefault("generation_id", -1)
    if version < 7:
        fields.pop("group_instance_id", None)
    talk.ask(OFFSET_COMMIT, version, by=by, topics=[{"name": topic, "partitions": [row]}], **fields)


def offsets(talk: Talk) -> None:
    talk.topic("of", 2)
    talk.topic("t")
    talk.coordinator("of")
    wanted = [{"name": "of", "partition_indexes": [0, 1, 7]}, {"name": "none", "partition_indexes": [0]}]
    for version in range(8):
        talk.ask(OFFSET_FETCH, version, group_id="unheard-of", topics=wanted)
        talk.ask(OFFSET_FETCH, version, group_id="of", topics=[])
        if version >= 2:
            talk.ask(OFFSET_FETCH, version, group_id="unheard-of", topics=None)
            talk.ask(OFFSET_FETCH, version, group_id="", topics=None)
        if version >= 1:
            talk.ask(OFFSET_FETCH, version, group_id="", topics=wanted)
    for version in range(1, 9):
        for topic, partition in (("of", 0), ("of", 2), ("of", -1), ("none", 0), ("", 0)):
            commit(talk, version, topic, partition, group_id="of")
        commit(talk, version, "of", 0, group_id="of", committed_metadata="x" * 101)
        commit(talk, version, "of", 1, group_id="of", committed_metadata="x" * 100, offset=version)
        commit(talk, version, "of", 1, group_id="of", committed_metadata=None, offset=version)
        commit(talk, version, "of", 0, group_id="of", offset=-1)
        commit(talk, version, "of", 0, group_id="of", generation_id=5, member_id="x")
        commit(talk, version, "of", 0, group_id="of", generation_id=0)
        commit(talk, version, "of", 0, group_id="of", member_id="x")
        commit(talk, version, "of", 0, group_id="")
        talk.ask(OFFSET_FETCH, 5, group_id="of", topics=None)
        talk.ask(OFFSET_COMMIT, version, group_id="of", generation_id=-1, topics=[])
        talk.ask(OFFSET_COMMIT, version, group_id="of", generation_id=-1, topics=[{"name": "of", "partitions": []}])
    commit(talk, 8, "of", 0, group_id="of", committed_leader_epoch=0)
    commit(talk, 8, "of", 1, group_id="of", committed_leader_epoch=9)
    twice = [{"name": "of", "partitions": [{"partition_index": 0, "committed_offset": n} for n in (7, 8)]}] * 2
    talk.ask(OFFSET_COMMIT, 8, group_id="of", generation_id=-1, topics=twice)
    wanted.append({"name": "of", "partition_indexes": [1, 1]})
    for version in range(1, 8):
        talk.ask(OFFSET_FETCH, version, group_id="of", topics=wanted)
    talk.ask(DESCRIBE_GROUPS, 5, groups=["of", "unheard-of"])
    talk.ask(JOIN, 7, **joining("of", "nobody"))
    several = [{"partition_index": n} for n in (0, 1, 7)]
    asked = [{"name": "of", "partitions": several}, {"name": "none", "partitions": several[:1]}]
    talk.ask(OFFSET_DELETE, 0, group_id="unheard-of", topics=asked)
    talk.ask(OFFSET_DELETE, 0, group_id="", topics=asked)
    talk.ask(OFFSET_DELETE, 0, group_id="of", topics=asked)
    talk.ask(OFFSET_DELETE, 0, group_id="of", topics=[])
    talk.ask(OFFSET_FETCH, 5, group_id="of", topics=None)
    talk.ask(DESCRIBE_GROUPS, 5, groups=["of"])
    commit(talk, 8, "of", 0, group_id="of")
    talk.ask(DELETE_GROUPS, 1, groups_names=["of", "of", "unheard-of"])
    talk.ask(DELETE_GROUPS, 1, groups_names=[])
    talk.ask(OFFSET_FETCH, 5, group_id="of", topics=None)


def old_offsets(talk: Talk) -> None:
    """Version 0 keeps offsets in ZooKeeper."""
    talk.topic("oo")
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    for topic, partition in (("oo", 0), ("oo", 1), ("none", 0)):
        rows = [{"name": topic, "partitions": [{**row, "partition_index": partition}]}]
        talk.ask(OFFSET_COMMIT, 0, group_id="oo", topics=rows)
    talk.ask(
        OFFSET_COMMIT,
        0,
        group_id="oo",
        topics=[{"name": "oo", "partitions": [{**row, "committed_metadata": "x" * 101}]}],
    )
    talk.ask(OFFSET_FETCH, 0, group_id="oo", topics=[{"name": "oo", "partition_indexes": [0, 1]}])
    talk.ask(OFFSET_FETCH, 0, group_id="oo", topics=[{"name": "none", "partition_indexes": [0]}])


def coordinators(talk: Talk) -> None:
    talk.coordinator("g")
    talk.coordinator("x", 1)
    for version in (1, 2, 3):
        for key, kind in (("g", 0), ("", 0), ("x", 1), ("", 1)):
            talk.ask(FIND_COORDINATOR, version, key=key, key_type=kind)
    talk.ask(FIND_COORDINATOR, 0, key="")


def several_members(talk: Talk) -> None:
    """Who leads, who is waited for, and what a change of one member means for the others."""
    talk.coordinator("sv")

    def join(by: str, member: str = "", version: int = 3, **fields: object) -> None:
        talk.send(JOIN, version, by=by, **joining("sv", member, rebalance_timeout_ms=20_000, **fields))

    def state(name: str) -> None:
        def is_in(answer: Any) -> bool:
            return answer.groups[0].group_state == name

        talk.unheard(DESCRIBE_GROUPS, 0, is_in, groups=["sv"])
        talk.ask(DESCRIBE_GROUPS, 5, groups=["sv"])

    def sync(by: str, member: str, generation: int, **fields: object) -> None:
        talk.send(SYNC, 4, by=by, group_id="sv", generation_id=generation, member_id=member, **fields)

    join("a")
    a = talk.receive("a").member_id
    join("b", protocols=[RANGE, ROUND])
    state("PreparingRebalance")
    talk.ask(HEARTBEAT, 3, by="a", group_id="sv", generation_id=1, member_id=a)
    talk.ask(SYNC, 3, by="a", group_id="sv", generation_id=1, member_id=a)
    join("a", a, protocols=[RANGE, ROUND])
    talk.receive("a")
    b = talk.receive("b").member_id
    state("CompletingRebalance")
    talk.ask(HEARTBEAT, 3, by="b", group_id="sv", generation_id=2, member_id=b)
    talk.ask(HEARTBEAT, 3, by="b", group_id="sv", generation_id=1, member_id=b)
    commit(talk, group_id="sv", generation_id=2, member_id=b)
    sync("b", b, 2)
    join("b2", b, protocols=[RANGE, ROUND])  # nothing changed: the answer of before
    talk.receive("b2")
    sync("a", a, 2, assignments=[{"member_id": a, "assignment": b"A"}])
    talk.receive("a")
    talk.receive("b")
    state("Stable")
    join("b2", b, protocols=[RANGE, ROUND])
    talk.receive("b2")
    join("b2", b, protocols=[RANGE])  # another subscription: everybody joins again
    state("PreparingRebalance")
    talk.ask(HEARTBEAT, 3, by="a", group_id="sv", generation_id=2, member_id=a)
    talk.ask(LEAVE, 3, by="b", group_id="sv", members=[{"member_id": b}, {"member_id": "x"}])
    state("PreparingRebalance")
    join("a", a, protocols=[RANGE, ROUND])
    talk.receive("a")
    sync("a", a, 3, assignments=[{"member_id": "gone", "assignment": b"A"}])
    talk.receive("a")
    join("a", a, protocols=[RANGE, ROUND])  # the leader, with nothing new: a rebalance all the same
    talk.receive("a")
    state("CompletingRebalance")
    talk.ask(JOIN, 3, by="b", **joining("sv", protocol_type="connect"))
    talk.ask(JOIN, 3, by="b", **joining("sv", protocols=[{"name": "other", "metadata": b""}]))
    talk.ask(LEAVE, 1, by="b", group_id="sv", member_id=a)
    state("Empty")
    talk.ask(JOIN, 3, by="b", **joining("sv", protocol_type="connect", rebalance_timeout_ms=1000))
    talk.ask(DESCRIBE_GROUPS, 5, groups=["sv"])
    talk.ask(OFFSET_DELETE, 0, group_id="sv", topics=[{"name": "t", "partitions": [{"partition_index": 0}]}])


def static_rebalances(talk: Talk) -> None:
    talk.coordinator("sr")
    static = {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 30_000}
    first = talk.ask(JOIN, 7, by="a", **joining("sr", group_instance_id="a", **static)).member_id
    one = {"group_id": "sr", "generation_id": 1, "group_instance_id": "a"}
    rows = [{"member_id": first, "assignment": b"1"}]
    talk.ask(JOIN, 7, by="a2", **joining("sr", group_instance_id="a", **static))  # while it completes
    talk.ask(SYNC, 4, by="a", **one, member_id=first, assignments=rows)
    back = talk.ask(JOIN, 7, by="a2", **joining("sr", group_instance_id="a", **static)).member_id
    talk.ask(DESCRIBE_GROUPS, 5, groups=["sr"])
    talk.ask(
        SYNC,
        4,
        by="a2",
        **{**one, "generation_id": 3},
        member_id=back,
        assignments=[{"member_id": back, "assignment": b"3"}],
    )
    talk.ask(JOIN, 7, by="a2", **joining("sr", back, group_instance_id="a", **static))
    talk.ask(JOIN, 7, by="a3", **joining("sr", group_instance_id="a", protocols=[ROUND], **static))
    talk.ask(DESCRIBE_GROUPS, 5, groups=["sr"])
    talk.ask(LEAVE, 4, group_id="sr", members=[{"member_id": back}, {"group_instance_id": "a"}])
    talk.ask(DESCRIBE_GROUPS, 5, groups=["sr"])


def full_group(talk: Talk) -> None:
    """Three members are as many as there may be."""
    talk.coordinator("fg")
    fields = {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 30_000}
    ids: dict[str, str] = {}
    for count, by in enumerate("abc", 1):
        talk.send(JOIN, 2, by=by, **joining("fg", **fields))
        for other in ids:
            beat = {"group_id": "fg", "generation_id": count - 1, "member_id": ids[other]}
            talk.unheard(HEARTBEAT, 0, lambda answer: answer.error_code == 27, **beat)
            talk.send(JOIN, 2, by=other, **joining("fg", ids[other], **fields))
        for each in (*ids, by):
            ids[each] = talk.receive(each).member_id
    for state in ("CompletingRebalance", "Stable"):
        talk.ask(JOIN, 2, by="d", **joining("fg", **fields))
        talk.ask(JOIN, 5, by="d", **joining("fg", **fields))
        talk.ask(JOIN, 5, by="d", **joining("fg", "nobody", **fields))
        if state == "CompletingRebalance":
            talk.ask(SYNC, 2, by="a", group_id="fg", generation_id=3, member_id=ids["a"], assignments=[])
    talk.ask(LEAVE, 1, group_id="fg", member_id=ids["b"])
    talk.ask(DESCRIBE_GROUPS, 3, groups=["fg"])


def silence(talk: Talk) -> None:
    """Members of whom nothing is heard, also ones that allow no time for a rebalance."""
    silent = []
    for by, fields in (("a", {}), ("b", {"group_instance_id": "b"})):
        for timeout_ms in (1000, 0, -1):
            group = f"si-{by}-{timeout_ms}"
            talk.coordinator(group)
            # Long enough for a heartbeat to come in time even on a busy machine; all run out side by side.
            short = {"session_timeout_ms": 2000, "rebalance_timeout_ms": timeout_ms}
            joined = talk.ask(JOIN, 5 if fields else 3, by=by, **joining(group, **short, **fields))
            me = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id, **fields}
            talk.ask(HEARTBEAT, 3, by=by, **me)
            silent.append((group, by, me))
    for group, by, me in silent:
        talk.unheard(
            DESCRIBE_GROUPS, 0, lambda answer: answer.groups[0].group_state in ("Empty", "Dead"), groups=[group]
        )
        talk.ask(HEARTBEAT, 3, by=by, **me)
        commit(talk, **me)
        talk.ask(DESCRIBE_GROUPS, 5, groups=[group])
