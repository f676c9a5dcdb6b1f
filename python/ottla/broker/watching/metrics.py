"""The metrics of a broker, looked up when somebody scrapes them: nothing is counted here, and nothing is kept.

Rows are made one by one as they are written, between other work of the loop, so they are not all of one moment.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from importlib.metadata import version
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla import errors, wire
from ottla.broker.authentication.authentication import Counts
from ottla.kafka import PartitionKey
from ottla.metrics import families as f
from ottla.metrics.exposition import Labels, labelled
from ottla.metrics.families import Family

if TYPE_CHECKING:
    from ottla._core import Distribution
    from ottla.broker.watching.readiness import Readiness
    from ottla.broker.watching.rooms import WatchedRooms
    from ottla.controller import Controller
    from ottla.replication.partition import Partition
    from ottla.replication.roles import PartitionState

Row: TypeAlias = tuple[Mapping[str, str] | Labels, float]
Told: TypeAlias = "tuple[Family, Iterable[Row]]"

#: As the exporter writes those that `Hub.measured` tells.
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
FETCHES: Final = {-1: "FetchConsumer", -2: "FetchFollower"}
#: The operations that may wait, by Kafka's names.
OPERATIONS: Final = ("Produce", "Fetch", "DeleteRecords", "Heartbeat")
#: Groups whose number of members is told.
GROUPS_MAX: Final = 10_000
#: Characters of a group's id, which its clients choose.
GROUP_LABEL_MAX: Final = 128
#: Committed offsets of which lag is told, and bytes of their labels; about 20 MB of lines, three times the second.
OFFSETS_MAX: Final = 100_000
OFFSETS_LABELS_BYTES_MAX: Final = 16 * 1024 * 1024
#: Partitions that are looked at without a row: then comes a family without any, at whose end a slice ends.
BETWEEN_PAUSES: Final = 1000
#: Idleness is that of the last seconds, at least so many.
IDLE_S: Final = 10.0
STARTING, RUNNING, STOPPING = 1, 3, 6


class BrokerMetrics:
    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._idle = _Idle()
        self._network_idle = _Idle()
        self._fetch_rates = _FetchRates()

    def __call__(self) -> Iterator[Told]:
        """Every metric that there is now."""
        readiness = self._readiness
        yield f.BUILD, [({"version": version("ottla")}, 1)]
        yield f.READY, _one(not readiness.reasons())
        broker = readiness.broker
        yield f.BROKER_STATE, _one(STOPPING if readiness.is_stopping else STARTING if broker is None else RUNNING)
        if broker is not None:
            yield from _traffic(broker)
            yield from _requests(broker)
            yield from self._load(broker)
            yield from _waiting(broker)
            names = _Partitions()
            yield from _replicas(broker, names)
            yield from _not_led(broker)
            yield from self._fetching(broker)
            yield from _logs(broker, names)
            yield from _directories(broker)
            yield from _controller(broker)
            yield from _groups(broker)

    def _load(self, broker: WatchedRooms) -> Iterator[Told]:
        hub = broker.server.hub
        elapsed_us, busy_us = hub.loop_busy_us
        yield f.HANDLER_IDLE, _one(self._idle.look(elapsed_us, busy_us))
        yield f.NETWORK_IDLE, _one(self._network_idle.look(*hub.served_us))
        yield f.BUSY, _one(busy_us / 1e6)
        used = hub.queued_bytes
        yield f.MEMORY_USED, _one(used)
        yield f.MEMORY_AVAILABLE, _one(max(0, broker.config.queued_bytes_max - used))
        yield f.CONNECTIONS, (({"listener": name}, count) for name, count in hub.listener_connections())
        yield f.ACCEPTED, _one(hub.accepted_total)
        counts = _authentications(broker)
        yield f.AUTHENTICATED, [({"listener": name}, each.succeeded) for name, each in counts.items()]
        yield f.NOT_AUTHENTICATED, [({"listener": name}, each.failed) for name, each in counts.items()]
        yield f.AUTHENTICATED_AGAIN, [({"listener": name}, each.succeeded_again) for name, each in counts.items()]
        yield f.NOT_AUTHENTICATED_AGAIN, [({"listener": name}, each.failed_again) for name, each in counts.items()]
        yield f.WITHOUT_AGAIN, [({"listener": name}, each.without_again) for name, each in counts.items()]
        audit = broker.audit
        yield f.AUDITED, _one(0 if audit is None else audit.written_total)
        yield f.NOT_AUDITED, _one(0 if audit is None else audit.lost_total)

    def _fetching(self, broker: WatchedRooms) -> Iterator[Told]:
        changes = broker.isr_changes
        yield f.ISR_SHRINKS, _one(changes.shrinks_total)
        yield f.ISR_EXPANDS, _one(changes.expansions_total)
        yield f.ISR_FAILURES, _one(changes.failures_total)
        rates = self._fetch_rates.look(broker.following.requests(), time.monotonic())
        yield f.MAX_LAG, [(_FETCHERS, broker.following.lag_max())]
        yield f.MIN_FETCH_RATE, [(_FETCHERS, min(rates, default=0.0))]
        yield f.FAILED_PARTITIONS, [(_FETCHERS, broker.following.failed_partitions())]
        throttles = broker.throttles
        sides = (("leader", throttles.leader), ("follower", throttles.follower))
        yield f.THROTTLED, [({"side": side}, quota.bytes) for side, quota in sides]


def _authentications(broker: WatchedRooms) -> dict[str, Counts]:
    """Those of each listener. Where TLS is followed by SASL, a client is known when both have succeeded."""
    found = {name: Counts(succeeded, failed) for name, succeeded, failed in broker.server.hub.handshakes()}
    for name, sasl in broker.authentication.counts.items():
        found[name] = sasl._replace(failed=sasl.failed + found.get(name, Counts()).failed)
    return found


#: As Kafka calls all of them.
_FETCHERS: Final = {"clientId": "Replica"}


class _FetchRates:
    """How often fetchers were answered in the last seconds."""

    def __init__(self) -> None:
        #: One or two earlier looks at the counts, each with its time, as in `_Idle`.
        self._seen: list[tuple[float, Mapping[tuple[int, int], int]]] = []

    def look(self, requests: Mapping[tuple[int, int], int], now_s: float) -> list[float]:
        """The answers a second of each fetcher. One that came since then counts from 0."""
        if not self._seen or now_s - self._seen[-1][0] >= IDLE_S:
            self._seen = [*self._seen[-1:], (now_s, requests)]
        then_s, before = self._seen[0]
        if (span_s := now_s - then_s) <= 0:
            return [0.0 for _ in requests]
        # A fetcher that was closed and opened again has counted anew.
        known = {fetcher: before.get(fetcher, 0) for fetcher in requests}
        return [(count - (known[one] if known[one] <= count else 0)) / span_s for one, count in requests.items()]


class _Idle:
    """Which part of the last seconds nothing was to do."""

    def __init__(self) -> None:
        #: Two earlier looks, (elapsed, busy) in us: to compare with the older, until the younger is old enough.
        self._seen = [(0, 0), (0, 0)]

    def look(self, elapsed_us: int, busy_us: int) -> float:
        if elapsed_us - self._seen[1][0] >= IDLE_S * 1e6:
            self._seen = [self._seen[1], (elapsed_us, busy_us)]
        before_us, busy_before_us = self._seen[0]
        span_us = elapsed_us - before_us
        return 1 - (busy_us - busy_before_us) / span_us if span_us > 0 else 1.0


def _one(value: float) -> list[Row]:
    return [({}, value)]


def _traffic(broker: WatchedRooms) -> Iterator[Told]:
    counts = broker.logs.directories.traffic.counts()
    for name, family in f.TRAFFIC.items():
        of = attrgetter(name)
        rows = (({"topic": topic}, of(each)) for topic, each in counts.by_topic.items())
        yield family, chain(_one(of(counts.total)), rows)
    yield f.REPLICATED_IN, _one(counts.total.replication_bytes_in)
    yield f.REPLICATED_OUT, _one(counts.total.replication_bytes_out)
    yield f.REASSIGNED_IN, _one(counts.total.reassignment_bytes_in)
    yield f.REASSIGNED_OUT, _one(broker.replicas.reassignment_bytes_out)


def _requests(broker: WatchedRooms) -> Iterator[Told]:
    measured = [(_api_name(api.key), api) for api in broker.server.hub.measured()]
    yield (
        f.REQUESTS,
        (
            ({"request": name, "version": str(number)}, count)
            for name, api in measured
            for number, count in api.versions
        ),
    )
    for part, (quantiles, count) in f.TIMES.items():
        yield from _distributions(quantiles, count, [(name, getattr(api, part)) for name, api in measured], 1000)
    yield from _distributions(f.SIZE, f.SIZE_COUNT, [(name, api.size_bytes) for name, api in measured], 1)
    yield from _distributions(f.THROTTLE, f.THROTTLE_COUNT, [(name, api.throttle_ms) for name, api in measured], 1)
    yield (
        f.ERRORS,
        (
            ({"error": _error_name(code), "request": name}, count)
            for name, api in measured
            for code, count in api.errors
        ),
    )


def _distributions(
    quantiles: Family, count: Family, by_name: list[tuple[str, Distribution]], divisor: int
) -> Iterator[Told]:
    yield quantiles, (row for name, of in by_name for row in _quantiles(name, of.quantiles, divisor))
    yield count, (({"request": name}, of.count) for name, of in by_name)


def _error_name(code: int) -> str:
    return errors.BY_CODE[code].name if code in errors.BY_CODE else str(code) if code else "NONE"


def _api_name(key: int) -> str:
    return FETCHES.get(key) or wire.name(key)


def _quantiles(name: str, values: Iterable[float], divisor: int) -> Iterator[Row]:
    for quantile, value in zip(QUANTILES, values, strict=True):
        yield {"quantile": quantile, "request": name}, value / divisor


def _waiting(broker: WatchedRooms) -> Iterator[Told]:
    counts = broker.deadlines.purgatories()
    counts["Fetch"] += broker.server.hub.waiting_fetches
    counts["Produce"] += broker.server.hub.waiting_produces
    rows = [({"delayedOperation": name}, counts[name]) for name in OPERATIONS]
    yield f.PURGATORY, rows
    yield f.PURGATORY_DELAYED, rows
    sessions = broker.fetch_sessions
    yield f.SESSIONS, _one(len(sessions))
    yield f.SESSION_PARTITIONS, _one(sessions.partitions_cached)
    yield f.SESSION_EVICTIONS, _one(sessions.evictions_total)


class _Partitions:
    """The labels of partitions, each written once in a scrape."""

    def __init__(self) -> None:
        self._known: dict[PartitionKey, Labels] = {}

    def __getitem__(self, key: PartitionKey) -> Labels:
        if (labels := self._known.get(key)) is None:
            labels = self._known[key] = labelled({"partition": str(key[1]), "topic": key[0]})
        return labels


def _replicas(broker: WatchedRooms, names: _Partitions) -> Iterator[Told]:
    partitions = list(broker.replicas.partitions.values())
    led = [partition for partition in partitions if partition.is_leader]
    yield f.PARTITIONS, _one(len(partitions))
    yield f.LEADERS, _one(len(led))
    yield f.OFFLINE_REPLICAS, _one(sum(partition.is_offline for partition in partitions))
    seen: list[tuple[Labels, Health]] = []

    def rows() -> Iterator[Row]:
        for partition in led:
            # One that lost its role while the scrape goes on is left out.
            if partition.state is not None:
                seen.append((names[partition.topic, partition.index], _health(partition, partition.state)))
                yield seen[-1][0], seen[-1][1][0]

    yield f.LED[0], rows()
    for place, family in enumerate(f.LED[1:], start=1):
        yield family, ((labels, health[place]) for labels, health in seen)
    for family, place in ((f.UNDER_REPLICATED, 2), (f.UNDER_MIN_ISR, 3), (f.AT_MIN_ISR, 4), (f.REASSIGNING, 6)):
        yield family, _one(sum(health[place] for _, health in seen))


def _not_led(broker: WatchedRooms) -> Iterator[Told]:
    led, me = broker.replicas.partitions, broker.id
    count = seen = 0
    for topic, partitions in list(
        broker.metadata.topics.items()
    ):  # a copy: topics come and go while the scrape goes on
        for index, known in partitions.items():
            seen += 1
            if known.leader == me and ((partition := led.get((topic, index))) is None or not partition.is_leader):
                count += 1
            if seen % BETWEEN_PAUSES == 0:
                yield f.NOT_LED, ()
    yield f.NOT_LED, _one(count)


#: As the families LED want it; and whether it is moving.
Health: TypeAlias = tuple[int, int, bool, bool, bool, int, bool]


def _health(partition: Partition, state: PartitionState) -> Health:
    # Those that a reassignment adds are not missed yet (KIP-455).
    replicas = len(state.replicas) - len(state.adding)
    in_sync, least = len(state.isr), partition.min_insync_replicas
    lag = partition.log.high_watermark - partition.log.last_stable_offset
    is_few, is_below, is_least = in_sync < replicas, in_sync < least, in_sync == least
    return (replicas, in_sync, is_few, is_below, is_least, max(0, lag), state.is_reassigning)


def _logs(broker: WatchedRooms, names: _Partitions) -> Iterator[Told]:
    logs = list(broker.logs.logs.items())
    for name, family in f.LOGS.items():
        of = attrgetter(name)
        yield family, ((names[key], of(log.figures)) for key, log in logs)


def _directories(broker: WatchedRooms) -> Iterator[Told]:
    directories = broker.logs.directories
    yield f.NOT_UNDERSTOOD, _one(_kept(broker))
    yield f.DIRECTORIES_OFFLINE, _one(len(directories.offline))
    yield f.DIRECTORY_OFFLINE, [({"logDirectory": str(each)}, not each.is_online) for each in directories]
    disks: list[tuple[dict[str, str], int, int]] = []
    for directory in directories.online:
        try:
            disk = shutil.disk_usage(directory.path)
        except OSError:
            continue  # the next append finds out
        disks.append(({"logDirectory": str(directory)}, disk.free, disk.total))
    yield f.FREE, ((labels, free) for labels, free, _ in disks)
    yield f.DISK, ((labels, total) for labels, _, total in disks)
    yield f.DIRTY, _one(int(100 * broker.cleaner.dirty_ratio_max))


def _kept(broker: WatchedRooms) -> int:
    """Topics of this broker's logs of which nothing is deleted or compacted."""
    settings = broker.settings
    if not settings.topics_not_understood and not settings.brokers_not_understood:
        return 0
    return sum(map(settings.keeps_everything, {topic for topic, _ in broker.logs.logs}))


def _controller(broker: WatchedRooms) -> Iterator[Told]:
    cluster = broker.controller.cluster
    yield f.ACTIVE_CONTROLLERS, _one(cluster is not None)
    topics = partitions = offline = moved = 0
    if cluster is not None:
        topics = len(cluster.topics)
        for of_topic in list(cluster.topics.values()):  # a copy: topics come and go while the scrape goes on
            for partition in list(of_topic.values()):
                leader = partition.state.leader if partition.state is not None else -1
                partitions += 1
                offline += leader not in cluster.brokers
                moved += bool(partition.replicas) and leader != partition.replicas[0]
                if partitions % BETWEEN_PAUSES == 0:
                    yield f.TOPICS, ()
    yield f.TOPICS, _one(topics)
    yield f.CLUSTER_PARTITIONS, _one(partitions)
    yield f.OFFLINE_PARTITIONS, _one(offline)
    yield f.IMBALANCE, _one(moved)
    yield f.UNCLEAN_ELECTIONS, _one(broker.controller.unclean_elections_total)
    yield from _events(broker.controller)


def _events(controller: Controller) -> Iterator[Told]:
    timings = controller.timings
    now_s = timings.now()
    yield f.EVENTS_WAITING, _one(controller.events_waiting)
    each = [(f.EVENTS_WAITED, timings.queue), *((f.EVENT_TIMES[kind], of) for kind, of in timings.events.items())]
    for (quantiles, count), durations in each:
        named = zip(QUANTILES, durations.quantiles_ms(now_s), strict=True)
        yield quantiles, [({"quantile": quantile}, value) for quantile, value in named]
        yield count, _one(durations.count)
    waiting = controller.requests_waiting()
    yield f.CHANNELS_WAITING, _one(sum(waiting.values()))
    yield f.CHANNEL_WAITING, (({"broker_id": str(broker)}, count) for broker, count in waiting.items())


def _groups(broker: WatchedRooms) -> Iterator[Told]:
    groups = [hosted.group for hosted in broker.groups.groups.values()]
    states: Counter[str] = Counter()
    count = 0
    for number, group in enumerate(groups, start=1):
        states[group.state.value.lower()] += 1
        count += len(group.offsets.committed)
        if number % BETWEEN_PAUSES == 0:
            yield f.GROUPS, ()
    yield f.GROUPS, _one(len(groups))
    for state, family in f.GROUPS_IN_STATE.items():
        yield family, _one(states[state])
    yield f.OFFSETS, _one(count)
    yield f.MEMBERS, (({"consumergroup": _shown(group.group_id)}, len(group.members)) for group in groups[:GROUPS_MAX])

    lags: list[Row] = []
    sums: defaultdict[tuple[str, str], int] = defaultdict(int)
    partitions = broker.replicas.partitions
    told = 0

    def committed() -> Iterator[Row]:
        nonlocal told
        bytes_left = OFFSETS_LABELS_BYTES_MAX
        for group in groups:
            shown = _shown(group.group_id)
            # A copy: groups commit while the scrape goes on.
            for (topic, index), placed in list(group.offsets.committed.items())[: OFFSETS_MAX - told]:
                labels = labelled({"consumergroup": shown, "topic": topic, "partition": str(index)})
                bytes_left -= len(labels)
                if bytes_left < 0:
                    return
                partition = partitions.get((topic, index))
                if partition is not None and partition.is_leader:
                    lag = max(0, partition.log.high_watermark - placed.committed.offset)
                    lags.append((labels, lag))
                    sums[shown, topic] += lag
                told += 1
                yield labels, placed.committed.offset

    yield f.COMMITTED, committed()
    yield f.LEFT_OUT, _one(max(0, count - told))
    yield f.LAG, lags
    yield f.LAG_SUM, (({"consumergroup": group, "topic": topic}, lag) for (group, topic), lag in sums.items())


def _shown(group_id: str) -> str:
    """A group's id as a label. A long one is cut, and ends in a hash so that two groups are never one series."""
    if len(group_id) <= GROUP_LABEL_MAX:
        return group_id
    digest = blake2b(group_id.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{group_id[:GROUP_LABEL_MAX]}...{digest}"
