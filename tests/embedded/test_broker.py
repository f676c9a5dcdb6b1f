"""A broker inside a program, `ottla.Broker`: its life, what a program sees of it, and that nothing else changes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

import ottla
from ottla.config import ConfigError
from ottla.embedded import BrokerFailed, NotRunning
from ottla.errors import InvalidConfig, InvalidTopic, StorageError, TopicAlreadyExists
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S, eventually

CLEAN = ".kafka_cleanshutdown"
#: In the gate, and in the soak.
MANY, VERY_MANY = 12, 100


def client(broker: ottla.Broker) -> Client:
    return Client.connect(broker.host, broker.port, "test")


def produce(broker: ottla.Broker, topic: str, *values: bytes) -> None:
    with client(broker) as connection:
        connection.produce(topic, batch(*values))


def values(broker: ottla.Broker, topic: str, partition: int = 0) -> list[bytes]:
    with broker.log(topic, partition) as log:
        return [record.value for record in log.records() if record.value is not None]


def test_a_program_writes_and_reads() -> None:
    with ottla.Broker() as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        broker.create_topic("orders", 3, {"retention.ms": 3_600_000})
        produce(broker, "orders", b"1 pear", b"2 plums")
        assert values(broker, "orders") == [b"1 pear", b"2 plums"]
        assert values(broker, "orders", 2) == []
        assert broker.is_running
    assert not broker.is_running


def test_others_clients_use_it() -> None:
    ck = pytest.importorskip("confluent_kafka")
    with ottla.Broker() as broker:
        producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"1 pear", b"alice")
        assert producer.flush(PATIENCE_S) == 0
        consumer = ck.Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        (message,) = consumer.consume(1, PATIENCE_S)
        assert (message.key(), message.value()) == (b"alice", b"1 pear")
        consumer.close()


def test_a_restart_keeps_port_and_data(tmp_path: Path) -> None:
    with ottla.Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        produce(broker, "t", b"1")
        before = broker.bootstrap_servers
        broker.stop()
        assert (tmp_path / CLEAN).exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((broker.host, broker.port))
        broker.start()
        assert not (tmp_path / CLEAN).exists()
        broker.restart()
        assert broker.bootstrap_servers == before
        produce(broker, "t", b"2")
        assert values(broker, "t") == [b"1", b"2"]
    assert (tmp_path / "t-0").is_dir()


def test_a_killed_broker_leaves_what_a_killed_process_does(tmp_path: Path) -> None:
    with ottla.Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        produce(broker, "t", b"1")
        with client(broker) as connection:
            broker.kill()
            with pytest.raises(ConnectionError):
                connection.call(API_VERSIONS, ApiVersionsRequest())
        assert not broker.is_running
        assert not (tmp_path / CLEAN).exists()
        with pytest.raises(NotRunning, match="not running"):
            broker.kill()
        broker.start()
        produce(broker, "t", b"2")
        assert values(broker, "t") == [b"1", b"2"]


def test_a_temporary_directory_is_removed_and_another_one_is_not(tmp_path: Path) -> None:
    broker = ottla.Broker()
    with pytest.raises(NotRunning, match="before it starts"):
        _ = broker.data_dir
    with broker:
        directory = broker.data_dir
        broker.create_topic("t")
        broker.restart()
        assert broker.data_dir == directory
    assert not directory.exists()
    with broker:  # a new one
        assert broker.data_dir != directory
        broker.create_topic("t")
    with ottla.Broker(data_dir=tmp_path / "data"):
        pass
    assert (tmp_path / "data" / CLEAN).exists()


def test_several_know_nothing_of_each_other() -> None:
    with ottla.Broker() as one, ottla.Broker() as other:
        one.create_topic("t")
        produce(one, "t", b"1")
        other.create_topic("t", 2)
        assert values(other, "t") == []
        one.kill()
        produce(other, "t", b"2")
        assert values(other, "t") == [b"2"]


def test_settings_are_kafkas() -> None:
    with ottla.Broker({"auto.create.topics.enable": False, "num.partitions": 2, "message.max.bytes": "1000"}) as broker:
        config = broker.settings
        assert (config["auto.create.topics.enable"], config["num.partitions"]) == ("false", "2")
        broker.create_topic("t")
        with client(broker) as connection:
            (row,) = connection.produce("t", batch(b"x" * 2000)).responses[0].partitions
        assert row.error_code == 10  # MESSAGE_TOO_LARGE


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.hours"):
        ottla.Broker({"log.retention.hour": 1}).start()
    with pytest.raises(ValueError, match="data_dir"):
        ottla.Broker({"log.dirs": "x"})
    with pytest.raises(TypeError, match=r"num\.partitions is None"):
        ottla.Broker({"num.partitions": None})
    with pytest.raises(ValueError, match="commas"):
        ottla.Broker(data_dir=tmp_path / "a,b")
    with ottla.Broker(data_dir=tmp_path / "one") as broker:
        with pytest.raises(RuntimeError, match="runs already"):
            broker.start()
        with pytest.raises(TopicAlreadyExists):
            [broker.create_topic("t") for _ in range(2)]
        with pytest.raises(InvalidTopic):
            broker.create_topic("no name")
        with pytest.raises(InvalidConfig, match="nothing"):
            broker.create_topic("u", settings={"nothing": 1})
        with pytest.raises(StorageError):
            broker.log("nobody")
        with pytest.raises(BrokerFailed, match="one is in use by another process or another opener in this one"):
            ottla.Broker(data_dir=tmp_path / "one").start()
        with pytest.raises(BrokerFailed, match=f"cannot listen on 127.0.0.1:{broker.port}: Address already in use"):
            ottla.Broker(port=broker.port).start()
    for call in (broker.kill, lambda: broker.create_topic("t")):
        with pytest.raises(NotRunning, match="call start"):
            call()
    broker.stop()  # it may be


def test_a_wait_for_the_start_can_be_interrupted(tmp_path: Path) -> None:
    """The controller cannot reach the address that the broker tells others, and so it does not get ready."""
    lines = f"""
import logging, ottla, sys, threading
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
broker = ottla.Broker({{"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}}, data_dir={str(tmp_path)!r})
try:
    broker.start()
except KeyboardInterrupt:
    print("interrupted", broker.is_running, [one.name for one in threading.enumerate() if "broker" in one.name])
"""
    with subprocess.Popen([sys.executable, "-u", "-c", lines], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for line in program.stdout:
            if "is registered with epoch" in line:
                program.send_signal(signal.SIGINT)
            if line.startswith("interrupted"):
                break
        assert line == "interrupted False []\n"
        assert program.wait(PATIENCE_S) == 0
    assert (tmp_path / CLEAN).exists()


def test_a_broker_that_fails_says_so() -> None:
    def fails() -> None:
        raise LookupError("a fault in the broker")

    broker = ottla.Broker().start()
    assert broker._thread is not None
    broker._thread._token.run_sync_soon(fails)
    eventually("it has ended", lambda: not broker.is_running)
    with pytest.raises(BrokerFailed, match="has failed"):
        broker.create_topic("t")
    with pytest.raises(BrokerFailed, match="has failed") as caught:
        broker.close()
    assert isinstance(caught.value.__cause__, LookupError)
    assert "a fault in the broker" in str(caught.value)
    with broker:  # nothing is left of that
        broker.create_topic("t")


def test_asyncio_goes_on_meanwhile() -> None:
    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with ottla.Broker() as broker:
            assert ticks > 1
            await asyncio.to_thread(broker.create_topic, "t")
            before = ticks
        assert ticks > before
        ticking.cancel()
        assert not broker.is_running

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    made = ottla.Broker()

    async def main() -> None:
        async def never() -> None:
            async with made:
                pytest.fail("it was cancelled")

        task = asyncio.create_task(never())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not made.is_running

    async def of_trio() -> None:
        with trio.move_on_after(0) as scope:
            async with made:
                pytest.fail("it was cancelled")
        assert scope.cancelled_caught

    trio.run(of_trio)
    assert not made.is_running
    with pytest.raises(NotRunning):
        _ = made.data_dir


def test_trio_goes_on_meanwhile() -> None:
    async def main() -> None:
        async with ottla.Broker() as broker:
            await trio.to_thread.run_sync(broker.create_topic, "t")

    trio.run(main)


def process() -> dict[str, object]:
    """All that belongs to the process, and not to a broker."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "wake-up": signal.set_wakeup_fd(-1),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)),
        "environment": dict(os.environ),
        "umask": umask,
        "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)],
        "root": (logging.getLogger().level, [*logging.getLogger().handlers], logging.lastResort),
        "ours": [
            (name, logger.level, [*logger.handlers], logger.propagate)
            for name, logger in sorted(logging.root.manager.loggerDict.items())
            if name.startswith("ottla") and isinstance(logger, logging.Logger)
        ],
        "factory": (logging.getLoggerClass(), logging.getLogRecordFactory()),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "directory": Path.cwd(),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "switch interval": sys.getswitchinterval(),
    }


def test_nothing_of_the_process_changes() -> None:
    with ottla.Broker():  # imports make loggers
        pass
    before = process()
    with ottla.Broker() as broker:
        broker.create_topic("t")
        produce(broker, "t", b"1")
        assert process() == before
        broker.kill()
        broker.start()
    assert process() == before


def test_a_fork_has_no_broker() -> None:
    with ottla.Broker() as broker:
        broker.create_topic("t")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert not broker.is_running
                try:
                    broker.create_topic("u")
                except NotRunning as error:
                    code = 0 if "forked" in str(error) else 2
                broker.close()  # it must not end the one of the parent
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        produce(broker, "t", b"1")
        assert values(broker, "t") == [b"1"]


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "import threading; threading.excepthook = None"])
def test_a_program_that_ends_stops_it(tmp_path: Path, end: str) -> None:
    lines = f"import ottla; broker = ottla.Broker(data_dir={str(tmp_path)!r}).start(); broker.create_topic('t'); {end}"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / CLEAN).exists()


def in_a_row(count: int) -> None:
    """As many brokers, one after the other, leave no threads, descriptors and objects."""

    def one() -> None:
        with ottla.Broker() as broker:
            broker.create_topic("t")
            produce(broker, "t", b"1")

    for _ in range(3):
        one()
    gc.collect()
    threads, descriptors, objects = threading.active_count(), len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    for _ in range(count):
        one()
    gc.collect()
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(gc.get_objects()) - objects < 20 * count


def test_many_in_a_row_leave_nothing() -> None:
    in_a_row(MANY)


@pytest.mark.soak
def test_a_hundred_in_a_row_leave_nothing() -> None:
    in_a_row(VERY_MANY)
