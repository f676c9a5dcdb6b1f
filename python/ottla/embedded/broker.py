"""`ottla.Broker`: starts, stops and kills a broker in this process, and what a test asks of it.

The broker has a thread and a trio loop of its own, so it serves while the program does whatever it does, also under
asyncio and trio. It changes nothing of the process: signal handlers, logging, the collector, the environment, limits
and umask stay as they are.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ottla.embedded.block import Block
from ottla.embedded.clock import Clock
from ottla.embedded.disk import Disk
from ottla.embedded.faults import Faults
from ottla.embedded.plan import Plan
from ottla.embedded.recording import Requests
from ottla.embedded.thread import BrokerFailed, BrokerThread

if TYPE_CHECKING:
    from ottla.log import Log

#: What differs from `ottla serve` where no setting says otherwise: a group that begins waits for nobody.
DEFAULTS: Final = {"group.initial.rebalance.delay.ms": "0"}
#: What this class has parameters for.
OWN: Final = {
    "log.dirs": "data_dir",
    "log.dir": "data_dir",
    "listeners": "host and port",
    "host.name": "host",
    "port": "port",
}
_numbers = itertools.count(1)

__all__ = ["Broker", "BrokerFailed", "NotRunning"]


class NotRunning(RuntimeError):
    """The broker is not running: it was not started, or was stopped or killed. Or it is paused, and cannot answer."""


class Broker(Block):
    """A broker of one, with a coordination tree of its own, on a free port of this machine.

        with ottla.Broker() as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    `async with` does the same under asyncio and trio, and waits without stopping the loop. Several brokers in one
    process know nothing of each other.

    `settings` are those of `server.properties`, by Kafka's names; their values may be text, numbers or bools. Without
    `data_dir` the data are in a temporary directory, which is removed at the end. `port` 0 is a free one, which the
    broker keeps when it is started anew.

    `faults` has requests and the disk fail on purpose, `clock` may jump, and `requests` shows what clients send.

    All methods may be called from any thread. They return when the broker has done what they say.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.settings: dict[str, str] = {**DEFAULTS, **texts(settings or {})}
        self._host = host
        self._port = port
        self._given = None if data_dir is None else Path(data_dir).absolute()
        if "," in str(self._given):
            raise ValueError(f"data_dir is {str(self._given)!r}, and log.dirs separates directories by commas")
        self._temporary: Path | None = None
        self._thread: BrokerThread | None = None
        self._process = os.getpid()
        # Held while it starts or ends: those come one after the other.
        self._changes = threading.Lock()
        self.name = f"ottla-broker-{next(_numbers)}"
        self._plan = Plan(self._arrange)
        self._disk = Disk(self._of_this_process)
        self.clock = Clock(self._disk, self._of_this_process)
        self.faults = Faults(self._plan, self._disk)
        self.requests = Requests(self._plan)

    def __repr__(self) -> str:
        thread = self._thread
        where = "not running" if thread is None else f"at {thread.address}"
        return f"<ottla.Broker, {where}{', paused' if self.is_paused else ''}>"

    # --- life ---

    def start(self) -> Self:
        """Starts the broker, and returns when clients are served.

        Raises:
            BrokerFailed: it cannot start; the text says why, and what to do. RuntimeError: it runs already.
            ConfigError: a setting is unknown, or has a value that it cannot have.
        """
        with self._changes:
            self._of_this_process()
            if self.is_running:
                raise RuntimeError(f"{self!r} runs already")
            made = self._given is None and self._temporary is None
            if made:
                self._temporary = Path(tempfile.mkdtemp(prefix="ottla-"))
            try:
                self._disk.stand_for(self.data_dir)
                thread = self._new_thread()
                thread.start()
            except BaseException:
                if made:
                    self._remove()
                raise
            self._thread = thread
            self._port = thread.port
        if self._plan.is_used():
            # One may have been added just before.
            thread.arrange()
        return self

    def stop(self) -> None:
        """Stops the broker cleanly, as SIGTERM does `ottla serve`: what was read is answered, logs are flushed. The
        data stay; `close` removes those that are temporary. Does nothing if it is not running.

        Raises:
            BrokerFailed: it had failed before.
        """
        with self._changes:
            thread, self._thread = self._thread, None
            if thread is not None and self._process == os.getpid():
                thread.stop()

    def kill(self) -> None:
        """Ends the broker as `kill -9` does: connections are closed in the middle of what they say, and nothing is
        flushed or marked as clean. What the broker had written stays, as it does in the system's memory when a process
        dies. The next start recovers the logs.

        Raises:
            NotRunning, BrokerFailed: it had failed before.
        """
        with self._changes:
            thread = self._running()
            self._thread = None
            thread.kill()

    def pause(self) -> None:
        """Has the broker stand still, as SIGSTOP does a process, or a machine that sleeps: connections stay open, and
        new ones are taken by the system, but no request is answered until `resume`. Does nothing if it is paused.

        In a `Cluster` its session with the tree ends when it has stood still for `zookeeper.session.timeout.ms`; others
        lead then, and it hears of that before anything else when it goes on. `embedded/pause.py` says what the others
        believe meanwhile. A broker of a ZooKeeper keeps its session.

        A paused broker may be killed. To be stopped or closed it goes on first.

        Raises:
            NotRunning. BrokerFailed: it has failed.
        """
        with self._changes:
            self._running().pause()

    def resume(self) -> None:
        """Has a paused broker go on. Returns when it does; others may lead by then. Does nothing if it is not paused.

        Raises:
            NotRunning.
        """
        with self._changes:
            self._running().resume()

    def power_loss(self, seed: int | None = None) -> None:
        """Ends the broker as its machine does that loses its power: as `kill`, and what was not flushed is gone. The
        next start finds that the machine has been started anew, as after a real one.

        Of each file what was written since its last fsync is gone, and of each folder the names that were made, changed
        or removed since. A real disk may have some of that, for the system writes by itself, too. So with a `seed` a
        part stays, which the seed chooses: the ends of logs are cut anywhere, in the middle of a batch as well.

        What was acknowledged under a promise to be on disk is there: with `flush.messages=1`, and with acks=all where
        nobody else has it (`log.flush.on.acks.all`). So is all that the coordination tree has said. It may be called
        for a broker that was killed or has failed, too.

        Raises:
            NotRunning: it has never run. BrokerFailed: it had failed before; its power is lost all the same.
        """
        with self._changes:
            self._of_this_process()
            if self._thread is None and not self._disk.is_used:
                raise NotRunning(f"{self!r} has never run, or is closed: use it in a `with` block, or call start()")
            directory = self.data_dir
            thread, self._thread = self._thread, None
            try:
                if thread is not None:
                    thread.kill()
            finally:
                self._disk.lose_power(directory, seed)

    def restart(self) -> None:
        """Stops the broker, if it runs, and starts it on the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the broker, and removes its temporary directory. It may be started again, and is a new one then."""
        try:
            self.stop()
        finally:
            self._remove()

    def _remove(self) -> None:
        directory, self._temporary = self._temporary, None
        if self._process != os.getpid():
            return
        self._disk.forget()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    # --- what there is ---

    @property
    def is_running(self) -> bool:
        """True from the end of `start` on, until it is stopped, killed or fails."""
        thread = self._thread
        return thread is not None and thread.is_alive and self._process == os.getpid()

    @property
    def is_paused(self) -> bool:
        """True from `pause` on until it goes on or ends. It `is_running` meanwhile."""
        thread = self._thread
        return thread is not None and thread.is_paused and self.is_running

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT, as clients take it. Raises NotRunning before the first start with port 0."""
        if not self._port:
            raise NotRunning(f"{self!r} has no port before it starts: use it in a `with` block, or call start()")
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    @property
    def host(self) -> str:
        """The host that it listens on."""
        return self._host

    @property
    def port(self) -> int:
        """The port that it listens on, or listened on last; 0 before the first start, if it was to be a free one."""
        return self._port

    @property
    def data_dir(self) -> Path:
        """The directory with its logs. Raises NotRunning where that is a temporary one that is not made yet."""
        directory = self._given or self._temporary
        if directory is None:
            raise NotRunning(f"{self!r} has no directory before it starts: use it in a `with` block, or call start()")
        return directory

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, object] | None = None) -> None:
        """Creates a topic, and returns when its partitions have leaders. `settings` are the topic's, by Kafka's names.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig, NotRunning; also if it is paused.
        """
        if self.is_paused:
            raise NotRunning(f"{self!r} is paused: call resume()")
        self._running().create_topic(name, partitions, 1, texts(settings or {}))

    def log(self, topic: str, partition: int = 0) -> Log:
        """The log of a partition, to be read beside the broker. The caller closes it (`with broker.log(...) as log`).

        Raises:
            StorageError: there is no such partition here.
        """
        from ottla.log import Log

        return Log.open(self.data_dir / f"{topic}-{partition}")

    # --- inside ---

    def _arrange(self) -> None:
        """Has the broker look at its plan, if it runs."""
        self._of_this_process()
        if (thread := self._thread) is not None:
            thread.arrange()

    def _running(self) -> BrokerThread:
        self._of_this_process()
        if self._thread is None:
            raise NotRunning(f"{self!r}: use it in a `with` block, or call start()")
        return self._thread

    def _of_this_process(self) -> None:
        if self._process != os.getpid():
            raise NotRunning(
                f"{self.name} runs in process {self._process}, from which this one was forked: only connect to it here "
                "(bootstrap_servers), or make a broker after the fork"
            )

    def _new_thread(self) -> BrokerThread:
        return BrokerThread(self.name, self._settings(), self._plan, self.clock)

    def _settings(self) -> dict[str, str]:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return {
            **self.settings,
            "log.dirs": str(self.data_dir),
            "listeners": f"PLAINTEXT://{host}:{self._port}",
        }


def texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as a file would have them. Raises ValueError for those that are parameters, TypeError for other
    types.
    """
    found = {}
    for name, value in settings.items():
        if name in OWN:
            raise ValueError(f"{name} is what Broker({OWN[name]}=...) says; leave it out of the settings")
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float):
            raise TypeError(f"{name} is {value!r}; a setting is text, a number or a bool")
        found[name] = str(value)
    return found
