"""What `ottla cluster status` shows: brokers, replicas that are behind, and moves; gathered in four kinds of questions
(Metadata, ListPartitionReassignments, ListOffsets of each broker, DescribeLogDirs of those that copy).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli._output import ROWS_MAX, columns, counted, sized

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.cluster_admin import Move, Overview
    from ottla.kafka import TopicPartition


@dataclass(slots=True)
class BrokerRow:
    """What one broker has: replicas, those of them that it leads or is preferred for, those that are not in sync, and
    how many records it is behind the leaders in all; None where that cannot be known.
    """

    id: int
    address: str | None
    rack: str | None
    is_controller: bool
    replicas: int
    leaders: int
    preferred: int
    out_of_sync: int
    lag: int | None


@dataclass(slots=True)
class Behind:
    """A partition with replicas that are `missing` from those in sync, or without a leader. `lag` has the records that
    those are behind, as far as it can be known.
    """

    partition: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    missing: list[int]
    lag: dict[int, int]

    @property
    def is_offline(self) -> bool:
        return self.leader < 0


@dataclass(slots=True)
class Moving:
    """A partition whose replicas move, and how many bytes of the new ones are there; None where that is not known."""

    partition: TopicPartition
    move: Move
    copied: int | None
    size: int | None
    lag: dict[int, int]
    """The records that the new replicas do not have yet, as far as that is known."""


@dataclass(slots=True)
class Status:
    """A cluster at one moment. `elsewhere` counts the partitions that another than their preferred replica leads.
    `moves` are None where the brokers do not tell (before 2.4, or without a controller).
    """

    cluster_id: str | None
    controller: int
    partitions: int
    elsewhere: int
    brokers: list[BrokerRow]
    behind: list[Behind] = field(default_factory=list)
    moves: list[Moving] | None = None

    @property
    def offline(self) -> int:
        return sum(each.is_offline for each in self.behind)

    @property
    def under_replicated(self) -> int:
        """As Kafka counts: partitions of which replicas are not in sync, those aside that a move adds."""
        return sum(bool(each.missing) for each in self.behind)


async def gather(cluster: Cluster) -> Status:
    """Asks the cluster."""
    from ottla.client.cluster_admin import ClusterAdmin
    from ottla.errors import KafkaError, LocalProtocolError

    admin = ClusterAdmin(cluster)
    overview = await admin.overview()
    replicas, led = overview.replicas(), overview.leaders()
    on: dict[int, list[TopicPartition]] = defaultdict(list)
    for name, brokers in replicas.items():
        for broker in brokers:
            on[broker].append(name)
    ends = await admin.log_ends({broker: on[broker] for broker in overview.brokers})
    lags = _lags(on, led, ends)
    elsewhere = sum(led[name] >= 0 and led[name] != brokers[0] for name, brokers in replicas.items() if brokers)
    moves: dict[TopicPartition, Move] | None
    try:
        moves = await admin.moves()
    except (KafkaError, LocalProtocolError, OSError):
        moves = None
    # What a move adds is not missed: it was never there.
    missing = {
        name: [
            broker
            for broker in each.replicas
            if broker not in each.in_sync and not (moves and name in moves and broker in moves[name].adding)
        ]
        for name, each in overview.partitions
    }
    rows = _rows(overview, on, led, lags, missing)
    status = Status(overview.cluster_id, overview.controller, len(replicas), elsewhere, rows)
    status.behind = _behind(overview, lags, missing)
    if moves is None:
        return status
    asked: dict[int, list[TopicPartition]] = defaultdict(list)
    for name, move in moves.items():
        for broker in (*move.adding, led.get(name, -1)):
            asked[broker].append(name)
    sizes = await admin.sizes(asked)
    status.moves = []
    for name, move in sorted(moves.items()):
        size = sizes.get(led.get(name, -1), {}).get(name)
        there = [sizes.get(broker, {}).get(name) for broker in move.adding]
        known = size is not None and None not in there
        copied = sum(min(each or 0, size or 0) for each in there) if known else None
        lag = {broker: lags[broker][name] for broker in move.adding if name in lags.get(broker, {})}
        status.moves.append(Moving(name, move, copied, (size or 0) * len(there) if known else None, lag))
    return status


def _lags(
    on: dict[int, list[TopicPartition]], led: dict[TopicPartition, int], ends: dict[int, dict[TopicPartition, int]]
) -> dict[int, dict[TopicPartition, int]]:
    """By broker and partition that it follows, as far as both ends are known."""
    lags: dict[int, dict[TopicPartition, int]] = {}
    for broker, names in on.items():
        lags[broker] = {}
        for name in names:
            mine, leaders_end = ends.get(broker, {}).get(name), ends.get(led[name], {}).get(name)
            if led[name] != broker and mine is not None and leaders_end is not None:
                lags[broker][name] = max(0, leaders_end - mine)
    return lags


def _rows(
    overview: Overview,
    on: dict[int, list[TopicPartition]],
    led: dict[TopicPartition, int],
    lags: dict[int, dict[TopicPartition, int]],
    missing: dict[TopicPartition, list[int]],
) -> list[BrokerRow]:
    leading = Counter(led.values())
    partitions = [each for _, each in overview.partitions]
    preferred = Counter(each.replicas[0] for each in partitions if each.replicas)
    out_of_sync = Counter(broker for brokers in missing.values() for broker in brokers)
    rows = []
    for broker in sorted({*overview.brokers, *on}):
        known = overview.brokers.get(broker)
        following = sum(led[name] != broker for name in on[broker])
        behind = lags.get(broker, {})
        rows.append(
            BrokerRow(
                broker,
                known.address if known else None,
                known.rack if known else None,
                broker == overview.controller,
                len(on[broker]),
                leading[broker],
                preferred[broker],
                out_of_sync[broker],
                sum(behind.values()) if len(behind) == following else None,
            )
        )
    return rows


def _behind(
    overview: Overview, lags: dict[int, dict[TopicPartition, int]], missing: dict[TopicPartition, list[int]]
) -> list[Behind]:
    found = []
    for name, each in overview.partitions:
        if each.leader >= 0 and not missing[name]:
            continue
        lag = {broker: lags[broker][name] for broker in missing[name] if name in lags.get(broker, {})}
        found.append(Behind(name, each.leader, each.replicas, each.in_sync, missing[name], lag))
    return sorted(found, key=lambda each: (not each.is_offline, each.partition))


def as_json(status: Status) -> dict[str, object]:
    """For programs; `lag` counts records, null where it cannot be known."""
    return {
        "cluster": status.cluster_id,
        "controller": status.controller if status.controller >= 0 else None,
        "partitions": status.partitions,
        "under_replicated": status.under_replicated,
        "offline": status.offline,
        "not_led_by_preferred": status.elsewhere,
        "brokers": [
            {
                "id": row.id,
                "address": row.address,
                "rack": row.rack,
                "controller": row.is_controller,
                "replicas": row.replicas,
                "leaders": row.leaders,
                "preferred": row.preferred,
                "out_of_sync": row.out_of_sync,
                "lag": row.lag,
            }
            for row in status.brokers
        ],
        "behind": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "leader": each.leader,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
                "lag": {str(broker): count for broker, count in each.lag.items()},
            }
            for each in status.behind
        ],
        "moves": None
        if status.moves is None
        else [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "replicas": each.move.replicas,
                "adding": each.move.adding,
                "removing": each.move.removing,
                "copied_bytes": each.copied,
                "size_bytes": each.size,
                "lag": {str(broker): count for broker, count in each.lag.items()},
            }
            for each in status.moves
        ],
    }


def as_text(status: Status) -> str:
    """For people: one screen, the brokers first, then what is not as it should be."""
    controller = f"controller {status.controller}" if status.controller >= 0 else "no controller"
    lines = [f"cluster {status.cluster_id or '?'}, {controller}, {counted(len(status.brokers), 'broker')}"]
    rows = [
        (
            row.id,
            row.address or "not there",
            row.rack or "-",
            row.replicas,
            row.leaders,
            row.preferred,
            row.out_of_sync,
            "?" if row.lag is None else row.lag,
        )
        for row in status.brokers
    ]
    header = ("broker", "address", "rack", "replicas", "leaders", "preferred", "not in sync", "lag")
    lines.append(columns(rows, header))
    lines.append(
        f"{counted(status.partitions, 'partition')}: {status.under_replicated:,} under-replicated, "
        f"{status.offline:,} offline, {status.elsewhere:,} not led by their preferred replica"
    )
    if status.behind:
        lines += ["", *_behind_text(status.behind)]
    if status.moves:
        lines += ["", *_moves_text(status.moves)]
    elif status.moves is None:
        lines.append("moves are not known: the controller does not tell")
    return "\n".join(lines)


def _behind_text(behind: list[Behind]) -> list[str]:
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            "none" if each.is_offline else each.leader,
            ",".join(map(str, each.replicas)),
            ",".join(map(str, each.in_sync)),
            ", ".join(f"{broker}: {count:,}" for broker, count in each.lag.items()) or "?",
        )
        for each in behind[:ROWS_MAX]
    ]
    table = columns(rows, ("topic", "partition", "leader", "replicas", "in sync", "lag")).splitlines()
    return [*table, *_more(len(behind))]


def _moves_text(moves: list[Moving]) -> list[str]:
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            ",".join(map(str, each.move.replicas)),
            ",".join(map(str, each.move.target)),
            "?" if each.copied is None or each.size is None else f"{sized(each.copied)} of {sized(each.size)}",
        )
        for each in moves[:ROWS_MAX]
    ]
    table = columns(rows, ("moving", "partition", "from", "to", "copied")).splitlines()
    return [*table, *_more(len(moves))]


def _more(count: int) -> list[str]:
    return [f"... and {count - ROWS_MAX:,} more"] if count > ROWS_MAX else []
