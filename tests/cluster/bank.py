"""A bank whose accounts are partitions: each transfer is a transaction over two of them, and an audit compares what a
reader of committed records sees with what the tellers were told.

Readers of several partitions do not see a transaction's halves at one moment, in Kafka neither: a snapshot is taken
while no transfer is under way.
"""

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import confluent_kafka as ck
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.faults.broker.load import CALL_S, CLIENT, Client, persist
from tests.support.waiting import PATIENCE_S, eventually

ACCOUNTS, TELLERS = 10, 3
DEPOSIT = 1000
OPENING = 0
"""The number of the transaction that pays in the deposits."""
STATE = "__transaction_state"
SHUT_S = 90.0
_numbers = itertools.count(1)


class Bank:
    """The work of the tellers, by the numbers of their transfers. While it is `shut` no transfer is under way."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.transfers = itertools.count(OPENING + 1)
        self.busy = 0
        self.is_shut = False
        self.committed: set[int] = {OPENING}
        self.aborted: set[int] = set()
        #: Whoever asked for their end was not told how it came out.
        self.doubtful: set[int] = set()

    @contextlib.contextmanager
    def open(self) -> Iterator[int]:
        """For one transfer, whose number it gives."""
        with self.changed:
            self.changed.wait_for(lambda: not self.is_shut)
            self.busy += 1
        try:
            yield next(self.transfers)
        finally:
            with self.changed:
                self.busy -= 1
                self.changed.notify_all()

    @contextlib.contextmanager
    def shut(self) -> Iterator[None]:
        with self.changed:
            self.is_shut = True
            assert self.changed.wait_for(lambda: self.busy == 0, SHUT_S), f"{self.busy} transfers do not end"
        try:
            yield
        finally:
            with self.changed:
                self.is_shut = False
                self.changed.notify_all()


class Teller(Client):
    """Transfers random amounts between random accounts; takes some back. Where a call fails that cannot be repeated, a
    new producer of its name settles what became of the old one's transaction.
    """

    def __init__(self, name: str, bootstrap: str, seed: int, bank: Bank, topic: str) -> None:
        super().__init__(name, bootstrap, seed, prefix=f"{topic}-")
        self.bank, self.topic = bank, topic
        self.thrown_out: list[str] = []

    def live(self) -> None:
        producer = self.settled()
        while not self.stop.is_set():
            with self.bank.open() as number:
                producer = self.transfer(producer, number)

    def transfer(self, producer: ck.Producer, number: int) -> ck.Producer:
        payer, payee = self.chance.sample(range(ACCOUNTS), 2)
        amount = self.chance.randrange(1, DEPOSIT)
        becomes = self.bank.aborted
        try:
            producer.begin_transaction()
            for account, change in ((payer, -amount), (payee, amount)):
                producer.produce(self.topic, f"{number} {change}", partition=account)
            if self.chance.random() < 0.2:
                persist(producer.flush, CALL_S)
                persist(producer.abort_transaction, CALL_S)
            else:
                becomes = self.bank.doubtful
                persist(producer.commit_transaction, CALL_S)
                becomes = self.bank.committed
        except ck.KafkaException as error:
            self.thrown_out.append(str(error))
            if error.args[0].fatal():
                raise
            if error.args[0].txn_requires_abort():
                becomes = self.bank.aborted
                persist(producer.abort_transaction, CALL_S)
            else:
                producer = self.settled()
        finally:
            becomes.add(number)
        return producer

    def settled(self) -> ck.Producer:
        """A new producer, as soon as there is a coordinator for it."""
        producers: list[ck.Producer] = []

        def settles() -> bool:
            try:
                producers.append(self.transactional())
            except ck.KafkaException as error:
                self.thrown_out.append(str(error))
            return bool(producers)

        eventually(f"{self.name} has a producer", settles, facts=lambda: self.thrown_out[-3:])
        return producers[0]


class Auditor:
    """Takes snapshots, and compares each with the tellers' books."""

    def __init__(self, cluster: Cluster, bank: Bank, topic: str) -> None:
        self.cluster, self.bank, self.topic = cluster, bank, topic
        self.snapshots = 0

    def look(self) -> None:
        with self.bank.shut():
            halves = self.read()
            assert sum(change for rows in halves.values() for change in rows) == ACCOUNTS * DEPOSIT, self.facts(halves)
            seen = Counter({number: len(rows) for number, rows in halves.items()})
            assert seen.pop(OPENING) == ACCOUNTS
            assert set(seen.values()) <= {2}, self.facts(halves)
            assert all(sum(rows) == 0 for number, rows in halves.items() if number != OPENING), self.facts(halves)
            assert not self.bank.committed - {OPENING} - seen.keys(), "a transfer is lost"
            assert not seen.keys() & self.bank.aborted, "a transfer that was taken back is there"
            assert seen.keys() <= self.bank.committed | self.bank.doubtful
            self.snapshots += 1

    def facts(self, halves: dict[int, list[int]]) -> object:
        return {number: rows for number, rows in halves.items() if sum(rows) and number != OPENING}

    def read(self) -> dict[int, list[int]]:
        """The changes of each transfer that are committed, from all accounts' beginnings."""
        ends = self.ends()
        consumer = ck.Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                **CLIENT,
                "group.id": "auditor",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        places = [ck.TopicPartition(self.topic, account) for account in range(ACCOUNTS)]
        consumer.assign([ck.TopicPartition(self.topic, account, 0) for account in range(ACCOUNTS)])
        halves: dict[int, list[int]] = {}

        def at_the_end() -> bool:
            for message in consumer.consume(1000, 0.1):
                if message.error() is None:
                    number, change = map(int, message.value().split())
                    halves.setdefault(number, []).append(change)
            return all(place.offset >= ends[place.partition] for place in consumer.position(places))

        eventually("all accounts are read", at_the_end, facts=lambda: (ends, consumer.position(places)))
        consumer.close()
        return halves

    def ends(self) -> dict[int, int]:
        """The end of each account. No transaction is open, so what is stable ends there too."""
        found: dict[int, int] = {}

        def told(account: int) -> bool:
            with contextlib.suppress(OSError), asking.client(self.cluster, self.leader(account)) as client:
                high, stable = (asking.last_offset(client, self.topic, account, level) for level in (0, 1))
                if high is not None and high == stable:
                    found[account] = high
            return account in found

        for account in range(ACCOUNTS):
            eventually(f"account {account} is stable to its end", lambda account=account: told(account))  # type: ignore[misc]
        return found

    def leader(self, account: int) -> Member:
        state = self.cluster.observer.state(self.topic, account)
        if state.leader == -1:
            raise ConnectionError("nobody leads")
        return self.cluster.broker(state.leader)


def transfers(
    cluster: Cluster,
    faults: Sequence[Callable[[Sequence[Teller]], Member]],
    *,
    stops: bool = False,
    replicas: Sequence[int] = (),
    names: Sequence[str] = tuple(f"teller-{number}" for number in range(TELLERS)),
) -> None:
    """Transfers between accounts while, for each fault in turn, the broker that it names is killed and comes back; with
    `stops` every third one is stopped in order. `replicas` are the brokers that have each account, its leader first.
    Transactional ids are the tellers' `names`.
    """
    seed = settings.seed()
    topic = f"accounts-{next(_numbers)}"
    bank = Bank()
    auditor = Auditor(cluster, bank, topic)
    with cluster.clients.inside():
        open_accounts(cluster, topic, replicas)
        tellers = [Teller(name, cluster.bootstrap, seed, bank, topic) for name in names]
        for teller in tellers:
            teller.start()

    def led_by(member: Member) -> int:
        states = [state for name in (topic, STATE) for state in cluster.observer.states(name).values()]
        return sum(1 for state in states if state is not None and state.leader == member.id)

    moves = 0
    with cluster.observer.follow(topic, STATE) as chronicle:
        try:
            flow(bank, tellers)
            for number, fault in enumerate(faults):
                member = fault(tellers)
                moves += led_by(member)
                if stops and number % 3 == 2:
                    member.stop()
                else:
                    member.kill()
                flow(bank, tellers)
                with cluster.clients.inside():
                    auditor.look()
                assert not member.running
                member.start()
                cluster.all_in_sync(topic, STATE)
                flow(bank, tellers)
                with cluster.clients.inside():
                    auditor.look()
        finally:
            for teller in tellers:
                teller.stop.set()
        for teller in tellers:
            teller.end()
        with cluster.clients.inside():
            auditor.look()
    times = len(faults)
    print(
        f"figures: {len(bank.committed)} transfers, {len(bank.aborted)} taken back, {len(bank.doubtful)} in doubt, "
        f"{auditor.snapshots} snapshots, tellers thrown out {[len(teller.thrown_out) for teller in tellers]} times"
    )
    assert auditor.snapshots == 2 * times + 1
    assert len(bank.committed) >= 60 * times
    assert len(bank.aborted) >= 5 * times
    assert chronicle.moved() >= moves >= times
    assert chronicle.unclean() == []
    chronicle.check()
    assert asking.open_transactions(cluster, topic) == []
    logs_equal(cluster.directories, topic, STATE)


def open_accounts(cluster: Cluster, topic: str, replicas: Sequence[int]) -> None:
    """Makes the accounts, and pays in the deposits."""
    administrator = admin.AdminClient({"bootstrap.servers": cluster.bootstrap, **CLIENT})
    row = admin.NewTopic(topic, ACCOUNTS, 3)
    if replicas:
        row = admin.NewTopic(topic, ACCOUNTS, replica_assignment=[list(replicas)] * ACCOUNTS)
    administrator.create_topics([row])[topic].result(PATIENCE_S)
    cluster.all_in_sync(topic)
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap, **CLIENT, "transactional.id": f"{topic}-opening"})
    persist(producer.init_transactions, CALL_S)
    producer.begin_transaction()
    for account in range(ACCOUNTS):
        producer.produce(topic, f"{OPENING} {DEPOSIT}", partition=account)
    persist(producer.commit_transaction, CALL_S)


def flow(bank: Bank, tellers: Sequence[Teller], transfers: int = 30) -> None:
    """Returns when so many more transfers are committed, each of which began later than now."""
    wanted = len(bank.committed) + TELLERS + transfers

    def enough() -> bool:
        for teller in tellers:
            teller.check()
        return len(bank.committed) >= wanted

    eventually("transfers go on", enough, facts=lambda: [teller.thrown_out[-2:] for teller in tellers])
