"""The blocking client: the same things as under trio, in the caller's thread, through forks and to the very end."""

import ast
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.client import EARLIEST, Delivered, RebalanceListener, TopicPartition, sync_stub
from ottla.client.facade import FACADES, LEFT_OUT, facade, loop
from ottla.client.sync import Admin, Cluster, Consumer, Producer, Receipt, TransactionalProducer
from ottla.errors import MessageTooLarge, TopicAlreadyExists
from tests.peers.ottla import Broker
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S


def values(cluster: Cluster, topic: str, *, read_committed: bool = False) -> list[bytes | None]:
    consumer = Consumer(cluster, wait_ms=100, read_committed=read_committed)
    consumer.assign({TopicPartition(topic, 0): EARLIEST})
    ends = consumer.ends()
    found: list[bytes | None] = []
    while consumer.positions != ends:
        found += [record.value for record in consumer.poll()]
    return found


def test_records_go_out_and_come_in(our_broker: Broker) -> None:
    with Cluster(our_broker.bootstrap) as cluster:
        admin = Admin(cluster)
        admin.create_topic("sync", 1)
        with pytest.raises(TopicAlreadyExists, match="sync"):
            admin.create_topic("sync", 1)
        with Producer(cluster) as producer:
            for number in range(100):
                producer.send("sync", b"%d" % number, partition=0)
            delivered: Delivered = producer.send_and_wait("sync", b"100")
            assert delivered.offset == 100
            receipt = producer.send_with_receipt("sync", b"101")
            assert isinstance(receipt, Receipt)
            assert receipt.wait().offset == 101
            assert receipt.is_over
            producer.send("sync", b"102")
        assert producer.acknowledged == 103
        assert values(cluster, "sync") == [b"%d" % number for number in range(103)]
        consumer = Consumer(cluster)
        consumer.assign({TopicPartition("sync", 0): 50})
        for offset, record in zip(range(50, 103), consumer, strict=False):
            assert (record.offset, record.value) == (offset, b"%d" % offset)
        assert admin.groups.describe("nobody").state == "Dead"
        assert admin.brokers.describe().controller == our_broker.id
        assert admin.brokers.cluster.partitions("sync") == [0]


def test_the_first_call_opens_and_close_delivers(our_broker: Broker) -> None:
    cluster = Cluster(our_broker.bootstrap)
    producer = Producer(cluster, linger_ms=60_000)
    producer.send("opened", b"a")
    producer.close()
    producer.close()
    assert values(cluster, "opened") == [b"a"]
    with pytest.raises(RuntimeError, match="closed"):
        producer.send("opened", b"b")
    cluster.close()


def test_errors_of_the_block_and_of_its_end(our_broker: Broker) -> None:
    with Cluster(our_broker.bootstrap) as cluster:
        Admin(cluster).create_topic("ends", 1, settings={"max.message.bytes": "1000"})

        def fails() -> None:
            with Producer(cluster, linger_ms=60_000) as producer:
                producer.send("ends", b"not delivered")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        with pytest.raises(MessageTooLarge, match="ends-0"), Producer(cluster) as producer:
            producer.send("ends", b"x" * 2000)
        assert values(cluster, "ends") == []


def test_transactions(our_broker: Broker) -> None:
    def fails(producer: TransactionalProducer) -> None:
        with producer.transaction():
            producer.send("transacted", b"aborted")
            producer.flush()
            raise ZeroDivisionError

    with Cluster(our_broker.bootstrap) as cluster:
        Admin(cluster).create_topic("transacted", 1)
        with TransactionalProducer(cluster, "sync") as producer:
            with producer.transaction():
                producer.send("transacted", b"committed")
            with pytest.raises(ZeroDivisionError):
                fails(producer)
            producer.begin()
            producer.send("transacted", b"too")
            producer.commit()
        assert values(cluster, "transacted", read_committed=True) == [b"committed", b"too"]


def test_many_threads_share_a_producer(our_broker: Broker) -> None:
    with Cluster(our_broker.bootstrap) as cluster:
        Admin(cluster).create_topic("threads", 1)
        with Producer(cluster) as producer:

            def send(name: int) -> None:
                for number in range(50):
                    producer.send("threads", b"%d %d" % (name, number))

            threads = [threading.Thread(target=send, args=(name,)) for name in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        found = values(cluster, "threads")
    assert sorted(found, key=str) == sorted((b"%d %d" % (n, i) for n in range(8) for i in range(50)), key=str)


def test_a_member_of_a_group_is_told_in_its_own_thread(our_broker: Broker) -> None:
    class Told(RebalanceListener):
        def __init__(self) -> None:
            self.what: list[tuple[str, threading.Thread]] = []

        def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            self.what.append(("assigned", threading.current_thread()))

        def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            self.what.append(("revoked", threading.current_thread()))
            consumer.commit()

    here = TopicPartition("members", 0)
    with Cluster(our_broker.bootstrap) as cluster:
        Admin(cluster).create_topic("members", 1)
        with Producer(cluster) as producer:
            for number in range(10):
                producer.send("members", b"%d" % number)
        told = Told()
        with Consumer(cluster, group="sync-members", start="earliest", auto_commit=False, wait_ms=100) as consumer:
            consumer.subscribe(["members"], told)
            found: list[bytes | None] = []
            while len(found) < 10:
                found += [record.value for record in consumer.poll()]
            committed: list[int] = []
            consumer.commit_soon({here: 4}, lambda offsets, problem: committed.append(threading.get_ident()))
            while not committed:
                consumer.poll()
            assert committed == [threading.get_ident()]
        assert told.what == [("assigned", threading.current_thread()), ("revoked", threading.current_thread())]
        assert Admin(cluster).groups.committed("sync-members")[here].offset == 10


class Calling:
    """What calls back, as a consumer does."""

    def __init__(self) -> None:
        self.where: list[threading.Thread] = []

    async def with_function(self, callback: Callable[[int], object]) -> object:
        self.where.append(threading.current_thread())
        return await callback(1)  # type: ignore[misc]

    async def with_listener(self, listener: object) -> object:
        return await listener.on_event(2)  # type: ignore[attr-defined]

    async def number(self) -> int:
        return 40

    def plain(self) -> str:
        return trio.lowlevel.current_task().name

    @asynccontextmanager
    async def block(self) -> AsyncIterator[str]:
        yield "inside"

    async def numbers(self) -> AsyncIterator[int]:
        for number in range(3):
            await trio.lowlevel.checkpoint()
            yield number


class Listener:
    def __init__(self, calling: object) -> None:
        self.calling = calling
        self.where: list[threading.Thread] = []

    def on_event(self, number: int) -> int:
        self.where.append(threading.current_thread())
        found: int = self.calling.number()  # type: ignore[attr-defined]
        return found + number


def blocking() -> "Calling":
    made = facade(Calling)
    del FACADES[Calling]
    return made()  # type: ignore[return-value]


def test_callbacks_run_in_the_callers_thread_and_may_block() -> None:
    calling = blocking()
    listener = Listener(calling)
    assert calling.with_listener(listener) == 42  # type: ignore[comparison-overlap]
    assert listener.where == [threading.current_thread()]
    assert calling.with_function(listener.on_event) == 41  # type: ignore[comparison-overlap]
    assert listener.where == [threading.current_thread()] * 2
    assert calling.where != [threading.current_thread()]

    def fails(number: int) -> None:
        raise KeyError(number)

    with pytest.raises(KeyError, match="1"):
        calling.with_function(fails)
    assert calling.plain()
    assert list(calling.numbers()) == [0, 1, 2]  # type: ignore[call-overload]
    with calling.block() as inside:  # type: ignore[attr-defined]
        assert inside == "inside"


def test_ctrl_c_ends_a_call() -> None:
    started, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    def interrupt() -> None:
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        loop().call(wait)
    thread.join()
    assert ended.wait(PATIENCE_S), "what nobody waits for any more goes on"


def test_a_blocking_call_in_the_loops_thread_is_an_error() -> None:
    async def call() -> None:
        loop().call(call)

    with pytest.raises(RuntimeError, match="own thread"):
        loop().call(call)


def script(broker: Broker, text: str, code: int = 0) -> str:
    head = "import os, sys\nfrom ottla.client.sync import Admin, Cluster, Producer\n"
    head += f"bootstrap = {broker.bootstrap!r}\ncluster = Cluster(bootstrap)\n"
    done = subprocess.run([sys.executable, "-c", head + text], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(("topic", "end"), [("exit", ""), ("exit-1", "sys.exit(1)"), ("exit-error", "1 / 0")])
def test_the_interpreters_end_delivers(our_broker: Broker, topic: str, end: str) -> None:
    text = f"""
Admin(cluster).create_topic({topic!r}, 1)
producer = Producer(cluster, linger_ms=60_000)
for number in range(1000):
    producer.send({topic!r}, b"%d" % number)
{end}
"""
    script(our_broker, text, 1 if end else 0)
    with Cluster(our_broker.bootstrap) as cluster:
        assert values(cluster, topic) == [b"%d" % number for number in range(1000)]


def test_what_cannot_be_delivered_at_the_end_is_told(our_broker: Broker) -> None:
    text = """
Admin(cluster).create_topic("exit-late", 1, settings={"max.message.bytes": "1000"})
producer = Producer(cluster, linger_ms=60_000)
producer.send("exit-late", b"x" * 2000)
"""
    assert "MessageTooLarge: exit-late-0" in script(our_broker, text)


def test_a_fork_makes_its_own(our_broker: Broker) -> None:
    text = """
Admin(cluster).create_topic("forked", 1)
producer = Producer(cluster)
producer.send_and_wait("forked", b"parent")
child = os.fork()
if not child:
    try:
        producer.send("forked", b"never")
    except RuntimeError as problem:
        assert "before a fork" in str(problem), problem
    with Cluster(bootstrap) as own:
        Producer(own).send("forked", b"child")
        # And it is delivered when the child ends.
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
producer.send("forked", b"parent again")
"""
    script(our_broker, text)
    with Cluster(our_broker.bootstrap) as cluster:
        assert values(cluster, "forked") == [b"parent", b"child", b"parent again"]


def test_the_example_of_the_docs(our_broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    example = block("python", "ottla.client.sync", "docs/client.md")
    with Cluster(our_broker.bootstrap) as cluster:
        if "greetings" not in Admin(cluster).list_topics():
            Admin(cluster).create_topic("greetings", 1)
    exec(compile(example.replace("127.0.0.1:9092", our_broker.bootstrap), "docs/client.md", "exec"), {})
    assert "0 b'to you' b'hello'\n1 None b'hello again'\n" in capfd.readouterr().out


def test_each_method_has_its_signature() -> None:
    """The stub is what its program writes, and names each public method of the classes under trio."""
    written, made = (
        {each.name: ast.dump(each) for each in ast.parse(text).body if isinstance(each, ast.ClassDef)}
        for text in (Path(sync_stub.FILE).read_text(), sync_stub.render())
    )
    assert written == made, "python -m ottla.client.sync_stub writes it anew"
    for kind, blocking_kind in FACADES.items():
        for name in dir(kind):
            if not name.startswith("_") and name not in LEFT_OUT and callable(getattr(kind, name)):
                assert name in dir(blocking_kind)
