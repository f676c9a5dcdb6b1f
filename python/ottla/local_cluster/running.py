"""Starting and stopping the brokers of a local cluster, and the tree that belongs to it.

Each step is in the file before the next is done, so that a command which is interrupted leaves nothing behind that a
later one does not know.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from ottla.client.blocking import BlockingConnection
from ottla.config.usual import usual_settings
from ottla.errors import ProtocolError
from ottla.kafka import NO_LEADER
from ottla.local_cluster import LocalClusterError, tree
from ottla.local_cluster.ports import Claims, is_free
from ottla.local_cluster.processes import Process, launch, send, wait_until
from ottla.local_cluster.state import FILE, LocalBroker, LocalCluster, Server, alone, existing, load
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse

FIRST_PORT = 9092
ZOOKEEPER_PORT = 2181
PORTS_TRIED = 100
START_S_MAX = 90.0
#: How long brokers are given to hand over what they lead. A second SIGTERM ends only that wait.
HAND_OVER_S_MAX = 5.0
STOP_S_MAX = 60.0
SIGNAL_AGAIN_S = 1.0
ASK_MS = 2_000
LOG_LINES = 15

Say = Callable[[str], None]
"""Tells the user a line of what was done."""


def start(
    directory: Path,
    *,
    count: int | None = None,
    given_zookeeper: str | None = None,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    say: Say = lambda line: None,
) -> LocalCluster:
    """Starts what does not run of the cluster in `directory`, which is made if there is none yet, and returns when all
    its brokers know each other. What this call started is ended again if one of them fails; if no broker of a new
    cluster came to serve, it is none: the next call may ask for another.

    Raises LocalClusterError, OSError.
    """
    _make(directory)
    with alone(directory), Claims() as claims:
        cluster = load(directory)
        is_new = cluster is None
        if cluster is None:
            cluster = _made(directory, count or 3, given_zookeeper, port, settings or {}, claims)
        else:
            _check_same(cluster, given_zookeeper, port)
            _changed(cluster, count, settings or {}, claims)
        begun: list[Server] = []
        try:
            _start_tree(cluster, begun, say, claims)
            _start_brokers(cluster, begun, say, claims)
        except BaseException:
            _end(cluster, [one for one in begun if isinstance(one, LocalBroker)], signal.SIGTERM)
            _end(cluster, [one for one in begun if not isinstance(one, LocalBroker)], signal.SIGTERM)
            if is_new and not any(_served(cluster, broker) for broker in cluster.brokers):
                (directory / FILE).unlink()
            raise
        return cluster


def stop(
    directory: Path, broker_ids: Collection[int] = (), *, kill: bool = False, say: Say = lambda line: None
) -> LocalCluster:
    """Stops brokers cleanly, all unless some are named, and after all of them a tree of the cluster's own. With
    `kill` they are killed (SIGKILL). Processes that were not started here are left alone.

    Raises LocalClusterError, OSError.
    """
    cluster = existing(directory)
    with alone(directory):
        known = {broker.id: broker for broker in cluster.brokers}
        if missing := sorted(set(broker_ids) - known.keys()):
            raise LocalClusterError(f"there is no broker {missing[0]}; the cluster has {_list(known)}")
        chosen = [known[each] for each in sorted(broker_ids or known)]
        running = [broker for broker in chosen if broker.runs]
        if kill:
            _end(cluster, running, signal.SIGKILL)
        else:
            _leave(cluster, running, are_all=not broker_ids)
        for broker in running:
            say(f"{'killed' if kill else 'stopped'} broker {broker.id}")
        for broker in chosen:
            if broker not in running:
                say(f"broker {broker.id} did not run")
        own = cluster.own_zookeeper
        if not broker_ids and own is not None and own.runs:
            _end(cluster, [own], signal.SIGKILL if kill else signal.SIGTERM)
            say("stopped the coordination tree")
        return cluster


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(each for each in (directory, *directory.parents) if each.exists())
        raise LocalClusterError(f"{file} is a file: take another --dir") from None


def _made(
    directory: Path,
    count: int,
    given_zookeeper: str | None,
    port: int | None,
    settings: Mapping[str, str],
    claims: Claims,
) -> LocalCluster:
    cluster = LocalCluster(directory, given_zookeeper or "", settings={**usual_settings(count), **settings})
    first = port or FIRST_PORT
    for number in range(1, count + 1):
        _add_broker(cluster, number, first + number - 1)
    _need_ports(cluster.brokers, claims, is_new=True)
    if given_zookeeper is None:
        taken = {broker.port for broker in cluster.brokers}
        tried = range(ZOOKEEPER_PORT, ZOOKEEPER_PORT + PORTS_TRIED)
        chosen = claims.take_first(one for one in tried if one not in taken)
        if chosen is None:
            raise LocalClusterError(f"no port from {ZOOKEEPER_PORT} on is free for the coordination tree")
        cluster.own_zookeeper = Server(chosen)
        cluster.zookeeper = cluster.own_zookeeper.address
    cluster.save()
    return cluster


def _check_same(cluster: LocalCluster, given_zookeeper: str | None, port: int | None) -> None:
    """Raises LocalClusterError for what cannot become another."""
    if given_zookeeper is not None and given_zookeeper != cluster.zookeeper:
        raise LocalClusterError(
            f"the cluster in {cluster.directory} is in the ZooKeeper {cluster.zookeeper}: leave --zookeeper out, or "
            "take another --dir"
        )
    if port is not None and port != cluster.brokers[0].port:
        raise LocalClusterError(
            f"the cluster in {cluster.directory} is at the ports from {cluster.brokers[0].port} on: leave --port out, "
            "or take another --dir"
        )


def _changed(cluster: LocalCluster, count: int | None, settings: Mapping[str, str], claims: Claims) -> None:
    """More brokers, and other settings for those that are to be started. Raises LocalClusterError."""
    have = len(cluster.brokers)
    if count is not None and count < have:
        raise LocalClusterError(
            f"the cluster in {cluster.directory} has {have} brokers, whose replicas would be missing: start all of "
            "them (`ottla cluster stop ID` stops one), or take another --dir"
        )
    new = {name: value for name, value in settings.items() if cluster.settings.get(name) != value}
    if new and (running := [broker.id for broker in cluster.brokers if broker.runs]):
        verb = "runs" if len(running) == 1 else "run"
        raise LocalClusterError(
            f"{_list(running)} {verb} already, without {', '.join(sorted(new))}: `ottla cluster stop` first"
        )
    cluster.settings.update(new)
    for number in range(have + 1, (count or have) + 1):
        _add_broker(cluster, number, cluster.brokers[-1].port + 1)
    _need_ports(cluster.brokers[have:], claims, is_new=True)
    cluster.save()


def _add_broker(cluster: LocalCluster, number: int, port: int) -> None:
    if port > 65535:
        raise LocalClusterError(f"there is no port {port} for broker {number}: take a lower --port")
    cluster.brokers.append(LocalBroker(port, id=number))


def _need_ports(servers: Sequence[Server], claims: Claims, *, is_new: bool = False) -> None:
    """Raises LocalClusterError if another program listens where one of these is to, or another start is about to have
    one listen there.
    """
    for server in servers:
        if not claims.take(server.port):
            todo = "choose another --port" if is_new else "end it first"
            who = "another program listens" if not is_free(server.port) else "another cluster is being started"
            raise LocalClusterError(f"{who} at {server.address}: {todo}")


def _start_tree(cluster: LocalCluster, begun: list[Server], say: Say, claims: Claims) -> None:
    own = cluster.own_zookeeper
    if own is None or own.runs:
        return
    tree.check_not_former(cluster.directory)
    _need_ports([own], claims)
    directory = cluster.directory / "tree"
    directory.mkdir(exist_ok=True)
    log = directory / "log.txt"
    since = _size(log)
    own.process = tree.launch_tree(directory, own.port, log)
    begun.append(own)
    cluster.save()
    _wait_ready("the coordination tree", own, log, since, lambda: tree.answers(own.port))
    say(f"started the coordination tree at {own.address}, as a ZooKeeper for laptops and tests")


def _start_brokers(cluster: LocalCluster, begun: list[Server], say: Say, claims: Claims) -> None:
    down = [broker for broker in cluster.brokers if not broker.runs]
    _need_ports(down, claims)
    since: dict[int, int] = {}
    for broker in down:
        log = cluster.log(broker)
        log.parent.mkdir(exist_ok=True)
        since[broker.id] = _size(log)
        broker.process = _launch(cluster, broker)
        begun.append(broker)
        cluster.save()
    for broker in down:
        _wait_ready(
            f"broker {broker.id}", broker, cluster.log(broker), since[broker.id], _serves(cluster, broker, since)
        )
        say(f"started broker {broker.id} at {broker.address}")
    ids = {broker.id for broker in cluster.brokers}
    for broker in cluster.brokers:
        _wait_ready(f"broker {broker.id}", broker, cluster.log(broker), since.get(broker.id, 0), _knows(broker, ids))


def _serves(cluster: LocalCluster, broker: LocalBroker, since: Mapping[int, int]) -> Callable[[], bool]:
    return lambda: _served(cluster, broker, since[broker.id])


def _served(cluster: LocalCluster, broker: LocalBroker, since: int = 0) -> bool:
    log = cluster.log(broker)
    return log.exists() and f"ottla ready: broker {broker.id} at" in _said(log, since)


def _knows(broker: LocalBroker, ids: set[int]) -> Callable[[], bool]:
    return lambda: ids <= _known(broker)


def _launch(cluster: LocalCluster, broker: LocalBroker) -> Process:
    command = [sys.executable, "-m", "ottla", "serve", "--id", str(broker.id), "--listen", broker.address]
    command += ["--data-dir", str(cluster.data(broker).resolve()), "--zookeeper", cluster.zookeeper]
    for name, value in cluster.settings.items():
        command += ["--set", f"{name}={value}"]
    return launch(command, cluster.log(broker))


def _known(broker: LocalBroker) -> set[int]:
    """The brokers that this one tells clients of; none while it knows no controller."""
    answer = _metadata(broker)
    if answer is None or answer.controller_id == NO_LEADER:
        return set()
    return {row.node_id for row in answer.brokers}


def _metadata(broker: LocalBroker, *, with_topics: bool = False) -> MetadataResponse | None:
    """The broker's answer to a Metadata request for no topics or for all; None if it does not answer."""
    topics: list[MetadataRequestTopic] | None = None if with_topics else []
    try:
        with BlockingConnection.connect("127.0.0.1", broker.port, "ottla-cli", timeout_ms=ASK_MS) as connection:
            return connection.call(METADATA, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    except (OSError, ProtocolError):
        return None


def _wait_ready(name: str, server: Server, log: Path, since: int, is_ready: Callable[[], bool]) -> None:
    """Raises LocalClusterError if it ends instead, or takes too long; with the end of what it said."""
    if wait_until(lambda: not server.runs or is_ready(), START_S_MAX) and server.runs:
        return
    how = f"was not ready within {START_S_MAX:.0f} s" if server.runs else "ended instead of being ready"
    lines = "".join(f"\n    {line}" for line in _said(log, since).splitlines()[-LOG_LINES:])
    raise LocalClusterError(f"{name} {how}; its log {log} ends with:{lines}" if lines else f"{name} {how}; see {log}")


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def _said(log: Path, since: int) -> str:
    with log.open("rb") as file:
        file.seek(since)
        return file.read().decode(errors="replace")


def _leave(cluster: LocalCluster, brokers: Sequence[LocalBroker], *, are_all: bool) -> None:
    """Stops brokers cleanly, one beginning after the other, the controller last. Each is waited for until others lead
    what they can; where all are stopped, no longer: what nobody can take over stays with a broker that knows all of it.
    """
    if not brokers:
        return
    answer = _metadata(brokers[-1])
    controller = NO_LEADER if answer is None else answer.controller_id
    leaving = sorted(brokers, key=lambda broker: (broker.id == controller, broker.id))
    gone: set[int] = set()
    for broker in leaving:
        assert broker.process is not None
        gone.add(broker.id)
        send(broker.process, signal.SIGTERM)
        wait_until(_has_left(broker, leaving[-1] if are_all else None, gone), HAND_OVER_S_MAX)
    _end(cluster, leaving, signal.SIGTERM)


def _has_left(broker: LocalBroker, last: LocalBroker | None, gone: Collection[int]) -> Callable[[], bool]:
    return lambda: not broker.runs or (last is not None and not _may_hand_over(broker, last, gone))


def _may_hand_over(broker: LocalBroker, last: LocalBroker, gone: Collection[int]) -> bool:
    """True if the broker leads a partition that another could lead which stays for now, as `last`, the last to be
    stopped, knows it.
    """
    if broker is last or (answer := _metadata(last, with_topics=True)) is None:
        return False
    return any(
        row.leader_id == broker.id and any(each not in gone for each in row.isr_nodes)
        for topic in answer.topics
        for row in topic.partitions
    )


def _end(cluster: LocalCluster, servers: Sequence[Server], number: signal.Signals) -> None:
    """Signals these until they have ended: to a broker that is leaving, a second SIGTERM ends the wait for others, and
    two that come as one are one.
    """
    processes = [server.process for server in servers if server.process is not None]
    deadline = time.monotonic() + STOP_S_MAX
    while running := [process for process in processes if process.runs]:
        if time.monotonic() > deadline:
            left = ", ".join(str(process.pid) for process in running)
            raise LocalClusterError(f"process {left} does not end within {STOP_S_MAX:.0f} s; `kill -9 {left}` ends it")
        for process in running:
            send(process, number)
        wait_until(lambda: not any(process.runs for process in processes), SIGNAL_AGAIN_S)
    for server in servers:
        server.process = None
    cluster.save()


def _list(ids: Collection[int]) -> str:
    """`broker 1`, `brokers 1, 2 and 3`."""
    names = [str(each) for each in sorted(ids)]
    if len(names) == 1:
        return f"broker {names[0]}"
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"
