"""A cluster to hurt: ZooKeepers, brokers of several kinds and clients, each on a node of its own.

    with Cluster(tmp_path, ("kafka", "kafka", "ottla"), zookeepers=3) as cluster:
        with cluster.clients.inside():
            ...                                     # what is started here reaches cluster.bootstrap
        with cluster.network.cut("broker-1", "broker-2"):
            ...
        cluster.broker(1).kill()
        cluster.broker(1).start()

A broker keeps its id, node, port and data over all its processes. Nodes are named `zookeeper-N` and `broker-N`, each as
the machine on it, and `clients` and `observer`, which no cut touches unless it names them (`isolate` names all).
Everything that was started is ended at the end of the `with` block, also after a failure.
"""

import contextlib
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from tests.cluster import clocks
from tests.cluster.forgetful import ForgetfulDisk, Lost
from tests.cluster.network import Node, network
from tests.cluster.observer import Observer, PartitionState
from tests.coordination.proxy import LossyProxy
from tests.peers.apache import Apache, has_controller
from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import Server, ask
from tests.support.waiting import eventually

#: Of Apache Kafka, by the kind of a broker.
VERSIONS = {"kafka": "2.7.2", "kafka-3.9.2": "3.9.2"}
OTTLA = "ottla"
#: A machine that is busy for seconds kills no session, and makes no follower late. Where a broker was killed, nobody
#: waits for the end of its session.
SESSION_MS = 10_000
LAG_MS = 10_000
#: Three of everything, of which one may be missing. A leader moves because of a fault and for no other reason.
SETTINGS: Mapping[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": LAG_MS,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "log.cleaner.backoff.ms": 500,
    # Kafka's 30 s are how long a connection through a cut link is waited for, also after the cut's end.
    "replica.socket.timeout.ms": 5000,
    "controller.socket.timeout.ms": 5000,
}
#: Of clusters that have one of everything: only its own faults are looked at.
SINGLE: Mapping[str, object] = {
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "zookeeper.session.timeout.ms": 1500,
}
#: Three JVMs on two cores.
KAFKA_SETTINGS: Mapping[str, object] = {"num.network.threads": 2, "num.io.threads": 4, "background.threads": 2}
TICK_MS = 500
READY_S = 120.0


class Machine:
    """A server on its node. Signals go to its present process."""

    def __init__(self, name: str, node: Node, usual_port: int) -> None:
        self.name = name
        self.node = node
        with node.inside():
            self.port = node.port(usual_port)
        self.address = f"{node.address}:{self.port}"
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        """The process that runs, or that ran last."""
        assert self._server is not None, f"{self.name} was never started"
        return self._server

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.running

    def _launch(self) -> Server:
        raise NotImplementedError

    def _wait_ready(self) -> None:
        raise NotImplementedError

    def start(self, *, wait: bool = True) -> None:
        """A new process. Without `wait` it is awaited by `ready`, so that several start together."""
        assert not self.running, f"{self.name} runs"
        with self.node.inside():
            self._server = self._launch()
        if wait:
            self.ready()

    def ready(self) -> None:
        with self.node.inside():
            self._wait_ready()

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()

    def stop(self) -> None:
        """SIGTERM, and its end is waited for."""
        self.server.stop()

    def pause(self) -> None:
        """Its process stands still until `resume`; to others it is a machine that does not answer."""
        self.server.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{self.server.pid}/status")
        eventually(f"{self.name} stands still", lambda: "State:\tT" in status.read_text())

    def resume(self) -> None:
        if self.running:
            self.server.process.send_signal(signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()


class ZooKeeper(Machine):
    """One server of the ensemble, or the only one."""

    def __init__(self, apache: Apache, number: int, node: Node) -> None:
        super().__init__(f"zookeeper-{number}", node, 2181)
        self.number = number
        self.directory = apache.directory / self.name
        with node.inside():
            self.place = f"{node.address}:{node.port(2888)}:{node.port(3888)}"
        self.settings: dict[str, object] = {}
        self._apache = apache

    def joins(self, ensemble: Sequence["ZooKeeper"]) -> None:
        """Says before the first start who is in the ensemble."""
        self.settings = {"tickTime": TICK_MS, "initLimit": 20, "syncLimit": 10, "maxSessionTimeout": 600_000}
        if "127.0.0.1" not in self.address:
            self.settings["clientPortAddress"] = self.node.address
        if len(ensemble) > 1:
            self.settings |= {f"server.{one.number}": one.place for one in ensemble}
        (self.directory / "data").mkdir(parents=True)
        (self.directory / "data" / "myid").write_text(str(self.number))

    def _launch(self) -> Server:
        server, _ = self._apache.zookeeper_server(
            port=self.port, directory=self.directory, settings=self.settings, wait=False
        )
        return server

    def _wait_ready(self) -> None:
        self.server.wait_until(lambda: self.mode() != "", READY_S)

    def mode(self) -> str:
        """`leader`, `follower` or `standalone`; empty while it serves nobody, for instance without a quorum."""
        with self.node.inside():
            lines = ask(self.port, b"srvr", host=self.node.address).decode().splitlines()
        return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), "")


class Member(Machine):
    """A broker. `data` is its log directory, and `more_data` a second one, if an Ottla broker is to have one at its
    next start. `ways` are its ways to the ZooKeepers, where the cluster is `proxied`;
    `disk` is where its data are, where the cluster is `forgetful`. `boots` is how often its machine has lost its power.
    """

    def __init__(self, kind: str, broker_id: int, node: Node, directory: Path) -> None:
        super().__init__(f"broker-{broker_id}", node, 9092)
        self.kind = kind
        self.id = broker_id
        self.directory = directory / self.name
        self.data = self.directory / "data"
        self.more_data: Path | None = None
        self.zookeeper = ""
        self.settings: dict[str, object] = {}
        self.ways: list[LossyProxy] = []
        self.disk: ForgetfulDisk | None = None
        self.boots = 0

    def lose_power(self) -> Lost:
        """Its process is gone, and with it what was not synced. Its connections are closed, though, as they are not
        when a whole machine goes: where that matters, cut it off before.
        """
        assert self.disk is not None, "the cluster is not forgetful"
        self.kill()
        self.boots += 1
        return self.disk.lose_power()

    def restart(self) -> None:
        """A clean stop, and a new process."""
        self.stop()
        self.start()


class KafkaMember(Member):
    def __init__(self, kind: str, broker_id: int, node: Node, apache: Apache) -> None:
        super().__init__(kind, broker_id, node, apache.directory)
        self._apache = apache

    def _launch(self) -> Server:
        return self._apache.broker(
            VERSIONS[self.kind],
            zookeeper=self.zookeeper,
            directory=self.directory,
            broker_id=self.id,
            host=self.node.address,
            port=self.port,
            settings={**KAFKA_SETTINGS, **self.settings},
            wait=False,
        )

    def _wait_ready(self) -> None:
        self.server.wait_until(lambda: has_controller(self.port, self.node.address), READY_S)


class OttlaMember(Member):
    def __init__(self, kind: str, broker_id: int, node: Node, brokers: Brokers) -> None:
        super().__init__(kind, broker_id, node, brokers.directory)
        self._brokers = brokers
        #: Where the long steps of its loop are written, if they are (`tests.support.watched_broker`).
        self.steps: Path | None = None
        #: How far its clock is ahead, at its next start.
        self.ahead_s = 0
        #: The folder with the package that it runs from its next start on, if not this one.
        self.build: Path | None = None

    def _launch(self) -> Server:
        return self._brokers(
            data=self.data,
            broker_id=self.id,
            host=self.node.address,
            port=self.port,
            zookeeper=self.zookeeper,
            settings=self.settings,
            environment={
                "OTTLA_BOOT_ID": f"{self.name} after {self.boots}",
                **(clocks.environment(self.ahead_s) if self.ahead_s else {}),
                **({} if self.build is None else {"PYTHONPATH": str(self.build)}),
            },
            program=("ottla",) if self.steps is None else ("tests.support.watched_broker", str(self.steps)),
            arguments=() if self.more_data is None else ("--data-dir", f"{self.data},{self.more_data}"),
            wait=False,
        )

    def _wait_ready(self) -> None:
        assert isinstance(self.server, Broker)
        self.server.wait_ready(READY_S)


class Cluster:
    """Brokers 1, 2, ... of the given kinds (`ottla` or one of VERSIONS) on a ZooKeeper ensemble.

    `settings` are for all brokers and win over SETTINGS, and `of_each` for single ones by their ids. With `proxied`,
    each broker reaches each ZooKeeper through a proxy of its own on its node, which delays and loses what is said
    (`Member.ways`). With `forgetful`, each broker's data are on a disk that forgets in a power loss what was not synced
    (`Member.lose_power`). Kafka's has a journal, as Kafka 2.7 relies on; Ottla's keeps names only in folders that were
    synced. With `watched`, the long steps of the loops of Ottla's brokers are written down (`OttlaMember.steps`).
    `ahead_s` says of brokers of Ottla by their ids how far their clocks are ahead (`clocks.need_clocks`), and `build`
    which package they run (`OttlaMember.build`).
    Without `namespaces`, as where there are none, all nodes are 127.0.0.1: everything works but the cuts, which skip
    the test.
    """

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[str],
        *,
        zookeepers: int = 1,
        settings: Mapping[str, object] | None = None,
        of_each: Mapping[int, Mapping[str, object]] | None = None,
        proxied: bool = False,
        forgetful: bool = False,
        watched: bool = False,
        ahead_s: Mapping[int, int] | None = None,
        build: Path | None = None,
        namespaces: bool = True,
    ) -> None:
        self.kinds = tuple(kinds)
        self._stack = ExitStack()
        numbers = range(1, zookeepers + 1)
        names = [f"zookeeper-{number}" for number in numbers]
        names += [f"broker-{number}" for number in range(1, len(kinds) + 1)]
        try:
            self.network = network([*names, "clients", "observer"], namespaces=namespaces)
            self._stack.enter_context(self.network)
            self.clients: Node = self.network["clients"]
            self._apache = self._stack.enter_context(Apache(directory))
            self._brokers = self._stack.enter_context(Brokers(directory))
            self.zookeepers = [
                ZooKeeper(self._apache, number, self.network[f"zookeeper-{number}"]) for number in numbers
            ]
            self.brokers = [self._member(kind, number) for number, kind in enumerate(kinds, 1)]
            for zookeeper in self.zookeepers:
                zookeeper.joins(self.zookeepers)
            for member in self.brokers:
                member.settings |= {**(settings or {}), **(of_each or {}).get(member.id, {})}
                member.zookeeper = self._way(member) if proxied else self.zookeeper
                if forgetful:
                    disk = ForgetfulDisk(member.data, journal=member.kind != OTTLA)
                    member.disk = self._stack.enter_context(disk)
                if isinstance(member, OttlaMember):
                    member.steps = directory / f"{member.name}.steps" if watched else None
                    member.ahead_s = (ahead_s or {}).get(member.id, 0)
                    member.build = build
            # It runs first of all at the end, since the factories would ask an Ottla broker to stop, and a process that
            # stands still cannot; and disks are unmounted when nobody uses them.
            self._stack.callback(self._kill_all)
            self._start()
        except BaseException:
            self._stack.close()
            raise

    def _member(self, kind: str, broker_id: int) -> Member:
        node = self.network[f"broker-{broker_id}"]
        if kind == OTTLA:
            member: Member = OttlaMember(kind, broker_id, node, self._brokers)
        else:
            member = KafkaMember(kind, broker_id, node, self._apache)
        member.settings = {**SETTINGS}
        if VERSIONS.get(kind, "2.7.2") != "2.7.2":
            member.settings["inter.broker.protocol.version"] = "2.7"
        return member

    def replace(self, old: Member, kind: str) -> Member:
        """A broker of another kind in the place of one that does not run: with its id, address, settings and data."""
        assert not old.running
        new = self._member(kind, old.id)
        new.port, new.address, new.zookeeper, new.ways, new.disk = (
            old.port,
            old.address,
            old.zookeeper,
            old.ways,
            old.disk,
        )
        new.settings = {**old.settings, **new.settings}
        self.brokers[old.id - 1] = new
        self.kinds = tuple(member.kind for member in self.brokers)
        return new

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def zookeeper(self) -> str:
        """HOST:PORT of all ZooKeepers."""
        return ",".join(one.address for one in self.zookeepers)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of all brokers, as clients take it."""
        return ",".join(member.address for member in self.brokers)

    @property
    def directories(self) -> list[Path]:
        """The log directories of all brokers."""
        more = [member.more_data for member in self.brokers if member.more_data is not None]
        return [member.data for member in self.brokers] + more

    def broker(self, broker_id: int) -> Member:
        return self.brokers[broker_id - 1]

    def leader(self, topic: str, partition: int = 0) -> Member:
        """The broker that leads the partition, by the tree."""
        return self.broker(self.observer.state(topic, partition).leader)

    def led_by_another(self, topic: str, partition: int, than: int) -> PartitionState:
        """Waits until another broker leads the partition, after its leader failed: a session's end and then some."""

        def another() -> bool:
            return self.observer.state(topic, partition).leader not in (-1, than)

        eventually(
            f"another than {than} leads {topic}-{partition}",
            another,
            facts=lambda: (self.observer.states(topic), self.observer.controller(), self.observer.registered()),
        )
        return self.observer.state(topic, partition)

    def leaves(self, member: Member) -> float:
        """Waits until the broker's session has ended, and returns when that was seen."""
        eventually(
            f"the session of {member.name} ends",
            lambda: member.id not in self.observer.registered(),
            facts=self.observer.registered,
        )
        return time.monotonic()

    def returns(self, member: Member) -> None:
        """Waits until the broker is registered."""
        eventually(
            f"{member.name} is registered",
            lambda: member.id in self.observer.registered(),
            facts=self.observer.registered,
        )

    def another_controls(self, than: int) -> tuple[int, int]:
        """Waits until another broker is the controller; that one and its controller epoch."""
        eventually(
            f"another than {than} controls",
            lambda: self.observer.controller()[0] not in (-1, than),
            facts=lambda: (self.observer.controller(), self.observer.registered()),
        )
        return self.observer.controller()

    def _way(self, member: Member) -> str:
        for zookeeper in self.zookeepers:
            with member.node.inside():
                proxy = LossyProxy((zookeeper.node.address, zookeeper.port))
            member.ways.append(self._stack.enter_context(proxy))
        return ",".join(f"127.0.0.1:{way.port}" for way in member.ways)

    def _start(self) -> None:
        for group in (self.zookeepers, self.brokers):
            for machine in group:
                machine.start(wait=False)
            for machine in group:
                machine.ready()
        places = {member.id: (member.node.address, member.port) for member in self.brokers}
        self.observer = self._stack.enter_context(Observer(self.network["observer"], self.zookeeper, places))
        for member in self.brokers:
            self.knows_all(member)

    def knows_all(self, member: Member) -> None:
        """Waits until the broker tells clients of every broker that runs."""
        running = {one.id for one in self.brokers if one.running}
        eventually(
            f"{member.name} knows {running}",
            lambda: self.observer.brokers_known_to(member.id) >= running,
            READY_S,
            facts=lambda: self.observer.brokers_known_to(member.id),
        )

    def all_in_sync(self, *topics: str, timeout_s: float = 60.0) -> None:
        """Waits until every assigned replica of the topics is in sync, and their leaders know and serve consumers."""
        eventually(
            f"all replicas of {', '.join(topics)} are in sync",
            lambda: all(self.observer.in_sync(topic) for topic in topics),
            timeout_s,
            facts=lambda: {topic: (self.observer.states(topic), self.log_ends(topic)) for topic in topics},
        )

    def all_led(self, *topics: str) -> None:
        """Waits until all replicas are in sync, and each leader says where its log ends."""
        self.all_in_sync(*topics)
        for topic in topics:
            for index in self.observer.assignment(topic):
                eventually(
                    f"{topic}-{index} is led",
                    lambda: self.observer.high_watermark(topic, index) is not None,  # noqa: B023
                    facts=lambda: self.observer.states(topic),  # noqa: B023
                )

    def log_ends(self, topic: str) -> dict[int, list[int | None]]:
        """Of each partition, where the log of every broker ends."""
        return {
            index: [self.observer.log_end(member.id, topic, index) for member in self.brokers]
            for index in self.observer.assignment(topic)
        }

    def _kill_all(self) -> None:
        for machine in [*self.brokers, *self.zookeepers]:
            if machine.running:
                with contextlib.suppress(ProcessLookupError):
                    machine.kill()
