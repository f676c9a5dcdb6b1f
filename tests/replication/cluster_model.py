"""Three replicas of one partition, a controller, and a network that loses, delays and reorders what they say.

The decisions are the real ones: `roles.role`, `in_sync.InSync` and `left_alone`, `truncation.cut`, `unclean_start`, and
the controller's after brokers left or came. Logs are lists of (leader epoch, value), and every step is chosen by a
random number generator. After each step `check` looks for what must never be:

* a record is gone that was below a leader's high watermark, unless each replica that was in sync lost it with the power
  of its machine, or with its disk,
* what others had, or were to have, was committed on the word of a leader alone, and is lost with its power (`Replica`),
* two logs differ below the high watermarks of both,
* a leader epoch goes back, in a log or in what a replica knows.

When nothing more is lost or delayed somebody leads (`rests`), whoever died between two steps: a controller removes a
registration and elects later, or not at all; a broker that lives resigns and registers again; what it hears of its
registration may be late.

One thing is left out: that what a replica asked its leader, what its leader asked the controller about it, or what it
answered the controller, is under way for longer than its machine takes to lose its power and to start. Neither Kafka
2.7's requests nor ours tell the two lives apart (KIP-903 does).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from ottla._core import Follower
from ottla.controller import decisions, log_ends, model
from ottla.controller.model import Partition
from ottla.controller.registration import is_lost
from ottla.coordination import znodes
from ottla.kafka import NO_EPOCH, NO_LEADER, PartitionKey
from ottla.replication.in_sync import DISK_HAS_IT, InSync, Proposal, left_alone
from ottla.replication.questions import EpochEnd
from ottla.replication.roles import PartitionState, Role, has_resigned, role
from ottla.replication.truncation import cut
from ottla.replication.unclean_start import UncleanStart, end_of, may_offer
from tests.replication.suspected import Around

REPLICAS = (1, 2, 3)
T: PartitionKey = ("t", 0)
FOR_EVER = float("inf")
Entry = tuple[int, int]


@dataclass
class Replica:
    id: int
    log: list[Entry] = field(default_factory=list)
    #: Leader epochs of the log and where each begins, with those in which nothing was appended.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    #: Where that part of the log ends that the disk has.
    flushed: int = 0
    #: True if a leader that is left alone in sync waits for the disk.
    waits_for_disk: bool = True
    #: It does: somebody has the log flushed.
    flush_is_due: bool = False
    #: Where the part of the log ends that was committed on this replica's word alone, of what others were to have too.
    vouched: int = 0
    is_alive: bool = True
    #: How often it has started.
    lives: int = 0
    #: Its broker epoch: the czxid of its registration, as far as it knows.
    czxid: int = 0
    #: True if this process has led, and leads no more.
    has_resigned: bool = False
    #: The controller for which it has registered again.
    renewed_for: int = 0
    #: After that: whether the log is suspected, until somebody is sure.
    start: UncleanStart | None = None
    # What a restart forgets.
    epoch: int = NO_EPOCH
    leader: int = NO_LEADER
    is_leader: bool = False
    in_sync: InSync | None = None
    #: Where the log ended when this replica was left alone in sync, and what `left_alone` makes of it. None: it is not.
    alone_since: int | None = None
    alone_from: int | None = None

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def begin(self, epoch: int) -> None:
        if epoch > self.last_epoch:
            self.epochs = [(other, start) for other, start in self.epochs if start < self.end or other < epoch]
            self.epochs.append((epoch, self.end))

    def append(self, entry: Entry) -> None:
        self.begin(entry[0])
        self.log.append(entry)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch of the log that is at most `epoch`, and where it ends."""
        found = [place for place, (other, _) in enumerate(self.epochs) if other <= epoch]
        if not found:
            return (-1, -1)
        place = found[-1]
        is_last = place + 1 == len(self.epochs)
        return self.epochs[place][0], self.end if is_last else self.epochs[place + 1][1]

    def truncate(self, offset: int) -> None:
        del self.log[offset:]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end]
        self.high_watermark = min(self.high_watermark, self.end)
        self.flushed = min(self.flushed, self.end)
        self.vouched = min(self.vouched, self.end)

    def flush(self) -> None:
        self.flushed = self.end
        self.flush_is_due = False
        if self.is_leader and self.is_alive:
            self.advance()

    @property
    def is_suspected(self) -> bool:
        return bool(self.start)

    @property
    def end_of_all(self) -> EpochEnd:
        """The answer to other replicas that ask where the log ends."""
        return end_of(self.epochs, self.end)

    def lose_power(self) -> None:
        self.is_alive = False
        assert self.flushed >= self.vouched, f"replica {self.id} alone vouched for {self.vouched - 1}, and lost it"
        self.truncate(self.flushed)
        self.start = UncleanStart(self.id, [T], cast("Any", Around(self)), cast("Any", None), wait_s=FOR_EVER)

    def lose_disk(self) -> None:
        self.is_alive = False
        self.vouched = 0
        self.truncate(0)
        around, tree = cast("Any", Around(self)), cast("Any", None)
        self.start = UncleanStart(self.id, (), around, tree, wait_s=FOR_EVER, without_log=[T])

    def advance(self) -> None:
        if self.in_sync is None:
            return
        if len(self.in_sync.maximal_isr) > 1:
            self.alone_since = self.alone_from = None
        else:
            if self.alone_since is None:
                self.alone_since = self.end
            if self.waits_for_disk and self._waits():
                return
        before = self.high_watermark
        self.high_watermark = max(before, self.in_sync.high_watermark(self.end))
        if self.alone_since is not None and self.high_watermark > before:
            self.vouched = max(self.vouched, min(self.high_watermark, self.alone_since))

    def serves(self, follower: int) -> bool:
        """The hub serves Fetches of a follower without asking (`rust/direct/terms.rs`)."""
        return self.in_sync is not None and self.in_sync.followers[follower].is_member

    def raise_in_hub(self) -> None:
        """Moves the high watermark as a lease does after a Fetch of a follower, which knows nothing of the disk."""
        if self.in_sync is not None:
            end, has_members = Follower.end_of_all(tuple(self.in_sync.followers.values()))
            before, self.high_watermark = self.high_watermark, max(self.high_watermark, min(self.end, end))
            if self.high_watermark > before and not has_members:
                self.vouched = max(self.vouched, self.high_watermark)

    def _waits(self) -> bool:
        is_news = self.alone_from is None
        if self.alone_from != DISK_HAS_IT:
            self.alone_from = left_alone(self.alone_from, self.end, self.flushed)
        self.flush_is_due |= is_news and self.alone_from != DISK_HAS_IT
        return self.alone_from != DISK_HAS_IT

    def restart(self, rng: random.Random) -> None:
        """The log stays; the high watermark is what was checkpointed some time ago."""
        self.high_watermark = rng.randint(0, self.high_watermark)
        self.epoch, self.leader, self.is_leader, self.in_sync = NO_EPOCH, NO_LEADER, False, None
        self.alone_since = self.alone_from = None
        self.flush_is_due = False
        self.is_alive = True
        self.lives += 1
        self.has_resigned, self.renewed_for = False, 0


@dataclass(frozen=True)
class Registered:
    czxid: int
    has_resigned: bool


class Cluster:
    """`forgets_followers`, `waits_for_epoch_start`, `suspects`, `waits_for_disk`, `believes_the_right_answers`,
    `leads_anew`, `renews`, `waits_for_all`, `hands_on` and `asks_who_goes_on` are rules that tests switch off, to see
    that they matter. Without `power`, no machine loses it; with `disks` it loses its disk instead.
    """

    def __init__(
        self,
        seed: int,
        *,
        forgets_followers: bool = True,
        waits_for_epoch_start: bool = True,
        suspects: bool = True,
        waits_for_disk: bool = True,
        believes_the_right_answers: bool = True,
        leads_anew: bool = True,
        renews: bool = True,
        waits_for_all: bool = True,
        hands_on: bool = True,
        asks_who_goes_on: bool = True,
        power: bool = False,
        disks: bool = False,
        expiries: float = 0.1,
    ) -> None:
        self.rng = random.Random(seed)
        self.replicas = {each: Replica(each, waits_for_disk=waits_for_disk) for each in REPLICAS}
        self.messages: list[Callable[[], None]] = []
        self.value = 0
        self.now = 0
        #: The state that the controller has written.
        self.leader, self.epoch, self.version = 1, 0, 0
        self.isr: tuple[int, ...] = REPLICAS
        #: The newest transaction of the tree, and the one that wrote the state.
        self.zxid = self.state_zxid = len(REPLICAS)
        #: The registrations that are in the tree. Those that have none may live all the same.
        self.registered = {each: Registered(each, has_resigned=False) for each in REPLICAS}
        for replica in self.replicas.values():
            replica.czxid = replica.id
        #: The epochs of the brokers that the controller takes for alive: what it has read of the tree.
        self.seen = {each: each for each in REPLICAS}
        self.controller_epoch = 1
        #: The next controller knows no more than the tree.
        self.has_controller = True
        #: Records below a leader's high watermark, by offset.
        self.committed: dict[int, Entry] = {}
        self.elections = self.truncations = self.shrinks = self.expansions = self.needless_removals = 0
        self.deaths_between = self.resigned = self.led_anew = self.renewed = 0
        self.power_losses = self.refusals = self.offers = self.orders = self.lost = 0
        #: Replicas that refused their role, and those that have not answered since their machines came back.
        self.failed: set[int] = set()
        self.unheard: set[int] = set()
        #: How often the brokers had started when a proposal was made.
        self._lives: dict[Proposal, dict[int, int]] = {}
        self._believes_the_right_answers = believes_the_right_answers
        self._leads_anew = leads_anew
        self._renews = renews
        self._suspects = suspects
        self._waits_for_all = waits_for_all
        self._hands_on = hands_on
        self._asks_who_goes_on = asks_who_goes_on
        #: Fetches that the hub has served.
        self.served = 0
        self._power = power or disks
        self._disks = disks
        #: How often it is a session that ends, of all that happens to registrations.
        self._expiries = expiries
        self._forgets_followers = forgets_followers
        self._waits_for_epoch_start = waits_for_epoch_start
        self._tell()

    # --- the controller ---

    def _tell(self) -> None:
        for each in sorted(self.seen):
            self._tell_again(self.replicas[each])

    def _tell_again(self, replica: Replica) -> None:
        if not self.has_controller or replica.id not in self.seen:
            return
        controller, to = self.controller_epoch, self.seen[replica.id]
        state = PartitionState(controller, self.leader, self.epoch, self.isr, REPLICAS, self.version)

        def told() -> None:
            # Others are refused: those for a former registration, and those of a former controller.
            if to >= replica.czxid and controller == self.controller_epoch:
                self._take(replica, state)

        self.messages.append(told)

    @property
    def _can_lead(self) -> list[int]:
        return [each for each in REPLICAS if each in self.seen and each not in self.failed | self.unheard]

    def elect(self) -> None:
        """A new leader, if one in sync is alive. Sometimes epochs are skipped, as by a controller that died
        half-way."""
        alive = [each for each in self.isr if self.replicas[each].is_alive and each in self._can_lead]
        if not self.has_controller or not alive or self.leader in self.unheard:
            return
        if len(alive) > 1 and self.rng.random() < 0.5:
            self.leader = self.rng.choice(alive)
        elif self.leader not in alive:
            self.leader = alive[0]
        if self.rng.random() < 0.5:
            # Brokers that are gone leave the set with the election.
            self.isr = tuple(alive)
        self.epoch += 1 if self.rng.random() < 0.7 else 2
        self._write()
        self.elections += 1
        self._tell()

    def _write(self) -> None:
        self.version += 1
        self.zxid += 1
        self.state_zxid = self.zxid

    def settle(self) -> bool:
        """The state that fits who is online. False if it is the one that there is."""
        if self.leader in self.unheard:
            return False
        online = [each for each in REPLICAS if each in self.seen and each not in self.failed]
        if self.leader not in online:
            online = [each for each in online if each not in self.unheard]
        partition = Partition(REPLICAS, state=znodes.PartitionState(self.leader, self.epoch, self.isr, 1))
        later = decisions.after_replicas_left(partition, online, 1)
        if later is None:
            return False
        self._become(later.leader, later.isr)
        return True

    def _become(self, leader: int, isr: tuple[int, ...]) -> None:
        if leader != NO_LEADER and not self._will_refuse(self.replicas[leader]):
            self._note_loss(self.replicas[leader])
        elif leader != NO_LEADER and not self._was_offered(self.replicas[leader]):
            # It may have lost more than those that refused, and are taken out for it.
            refused = [each for each in self.isr if each in self.failed and self.replicas[each].is_suspected]
            assert {*refused} <= {*isr}, f"{refused} refused, and {leader} is no better"
        self.leader, self.isr = leader, isr
        self.epoch += 1
        self._write()
        self._tell()

    def _will_refuse(self, replica: Replica) -> bool:
        suspect = replica.start.suspects.get(T) if replica.start else None
        return self._suspects and suspect is not None and suspect.offered_until_s <= self.now

    def _was_offered(self, replica: Replica) -> bool:
        return replica.start is not None and replica.start.suspects[T].offered_until_s > 0

    def remove(self, replica: Replica) -> None:
        """The controller takes a broker for gone, and is told so rightly or by a firewall that lies. First its
        registration goes. Then it leaves the ISR, unless nobody else is in it, if the controller lives so long.
        """
        self._unregister(replica.id)
        self.needless_removals += replica.is_alive
        if self.rng.random() < 0.3:
            self.has_controller = False
            self.deaths_between += 1
        elif self.rng.random() < 0.7:
            self.look()

    def _unregister(self, broker: int) -> None:
        if self.registered.pop(broker, None) is not None:
            self.zxid += 1

    def _forget(self, broker: int) -> None:
        self.seen.pop(broker, None)
        self.failed.discard(broker)
        self.unheard.discard(broker)

    def look(self) -> None:
        """The controller reads who is registered, and acts on those that left, came, or did both."""
        if not self.has_controller:
            return
        now = {broker: node.czxid for broker, node in self.registered.items()}
        left = [broker for broker, czxid in self.seen.items() if now.get(broker) != czxid]
        for broker in left:
            self._forget(broker)
        if left:
            self.settle()
        came = [broker for broker in now if broker not in self.seen]
        self.seen = now
        if came:
            self._suspect(came)
            if not self.settle():
                self._tell()

    def take_over(self) -> None:
        """Another controller: it knows what it reads of the tree."""
        self.has_controller = True
        self.controller_epoch += 1
        self.failed, self.unheard = set(), set()
        self.seen = {broker: node.czxid for broker, node in self.registered.items()}
        node = self.registered.get(self.leader)
        leader = None if node is None else model.Broker(self.leader, node.czxid, (), has_resigned=node.has_resigned)
        is_resigned = leader is not None and leader.may_have_resigned(self.state_zxid)
        self._suspect(self.seen)
        if self.settle():
            return
        if is_resigned and self._leads_anew:
            self.led_anew += 1
            self._become(self.leader, self.isr)
        else:
            self._tell()

    def _suspect(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            if self._suspects and self.replicas[broker].start and broker in self.isr:
                # The registration of another may be that of a former life.
                self.unheard |= self.seen.keys() & {*self.isr}

    def register(self, replica: Replica) -> None:
        """A broker registers, for the first time in its life or again. One that has lost its power looks into the tree
        before. The controller hears of it soon.
        """
        if replica.start:
            if replica.id not in self.isr:
                replica.start.forget(T)
            else:
                replica.start.suspects[T].in_sync |= set(self.isr)
        self._unregister(replica.id)
        self.zxid += 1
        replica.czxid = self.zxid
        self.registered[replica.id] = Registered(replica.czxid, replica.has_resigned)
        if not self.has_controller and self.rng.random() < 0.5:
            self.take_over()
        elif self._power or self.rng.random() < 0.8:
            self.look()

    def ask(self, replica: Replica) -> None:
        """A broker asks for its registration. The answer may come when it has another one."""
        asked, life, node = replica.czxid, replica.lives, self.registered.get(replica.id)
        found = None if node is None else node.czxid

        def answered() -> None:
            if not replica.is_alive or replica.lives != life:
                return
            if is_lost(asked, replica.czxid if self._believes_the_right_answers else asked, found):
                # It leads nothing until it is told so in a newer epoch.
                replica.has_resigned |= replica.is_leader
                self.resigned += replica.is_leader
                replica.is_leader, replica.in_sync = False, None
                if self._believes_the_right_answers or replica.id not in self.registered:
                    self.register(replica)

        self.messages.append(answered)

    def expire(self, replica: Replica) -> None:
        """The session of a broker ends, and it registers in another one. It leads what it led. Sometimes it has asked
        for its registration in between.
        """
        self._unregister(replica.id)
        if self.rng.random() < 0.5:
            self.ask(replica)
        self.register(replica)

    def rests(self) -> None:
        """Nothing is lost or delayed any more. Somebody must lead soon.

        An operator helps where the last one in sync has lost something.
        """
        for replica in self.replicas.values():
            if not replica.is_alive:
                replica.restart(self.rng)
                self.register(replica)  # the registration of its former life is not its own
            if replica.id not in self.registered:
                self.ask(replica)
                self.register(replica)
        if not self.has_controller:
            self.take_over()
        self.look()
        # What was lost is sent again until it is answered.
        self._tell()
        for _ in range(10):
            while self.messages:
                self.messages.pop(0)()
            self.look()
            leader = self.replicas.get(self.leader)
            if leader is not None and leader.is_leader and leader.epoch == self.epoch:
                return
            self.order()
            for replica in self.replicas.values():
                self.ask(replica)
                self.offer(replica)
                if replica.id in self.unheard | self.failed:
                    self._tell_again(replica)
        raise AssertionError(f"broker {self.leader} does not lead in epoch {self.epoch}")

    def _answered(self, broker: int, life: int, is_refused: bool) -> None:
        """Takes the answer of a broker to the role that it was told."""
        replica = self.replicas[broker]
        if (
            not self.has_controller
            or life != replica.lives
            or broker not in self.seen
            or (replica.is_suspected and not replica.is_alive)
        ):
            return
        known = (broker in self.unheard, broker in self.failed)
        self.unheard.discard(broker)
        (self.failed.add if is_refused else self.failed.discard)(broker)
        if known != (False, broker in self.failed):
            self.settle()

    def _alter(self, leader: int, czxid: int, proposal: Proposal) -> None:
        """AlterIsr at the controller."""
        if not self.has_controller:
            return
        if self.seen.get(leader, 0) < czxid:
            self.look()
        if self.seen.get(leader) != czxid:
            return
        is_current = leader == self.leader and proposal.leader_epoch == self.epoch and proposal.version == self.version
        joining = [each for each in proposal.isr if each not in self.isr]
        lives = self._lives[proposal]
        if is_current and self._power and any(self.replicas[each].lives != lives[each] for each in joining):
            # As for one that is not registered: the leader begins anew.
            self._become(self.leader, self.isr)
            return
        if is_current and all(self.replicas[each].is_alive and each in self._can_lead for each in joining):
            if len(proposal.isr) < len(self.isr):
                self.shrinks += 1
            else:
                self.expansions += 1
            self.isr = proposal.isr
            self._write()
        if leader == self.leader and proposal.leader_epoch == self.epoch:
            epoch, isr, version = self.epoch, self.isr, self.version
            self.messages.append(lambda: self._altered(self.replicas[leader], epoch, isr, version))

    def offer(self, replica: Replica) -> None:
        """A replica that was refused leads if nobody who was in sync has more. It waits for all of them: what a shorter
        wait costs is no matter of chance.
        """
        suspect = replica.start.suspects.get(T) if replica.start else None
        if suspect is None or not replica.is_alive or self.leader != NO_LEADER or replica.id not in self.failed:
            return
        others = {
            each: self.replicas[each].end_of_all if self.replicas[each].is_alive else None
            for each in suspect.in_sync - {replica.id}
        }
        wait_s = FOR_EVER if self._waits_for_all else 0
        if others and may_offer(replica.id, replica.end_of_all, others, 0, wait_s):
            suspect.offered_until_s = self.now + 50
            self.offers += 1
            self._tell_again(replica)

    def order(self) -> None:
        """An operator has somebody lead where the last one in sync lost its power."""
        are_alive = all(each.is_alive for each in self.replicas.values())
        if not self.has_controller or self.leader != NO_LEADER or not are_alive:
            return
        if any(not self.replicas[each].is_suspected for each in self.isr) or len(self.isr) > 1:
            return
        ends = {each.id: each.end_of_all for each in self.replicas.values()}
        if self._asks_who_goes_on:
            asked = log_ends.doubts(self.isr, ends)
            common = {each: EpochEnd(*self.replicas[each].end_of(epoch)) for each, epoch in asked.items()}
            ends = log_ends.counting(self.isr, ends, common)
        leader = self.replicas[max(ends, key=lambda broker: ends[broker])]
        if leader.start:
            leader.start.forget(T)
        self.failed.discard(leader.id)
        self.orders += 1
        self._become(leader.id, (leader.id,))

    # --- replicas ---

    def _take(self, replica: Replica, state: PartitionState) -> None:
        if not replica.is_alive:
            return
        applied = role(state, replica.id, replica.epoch, replica.is_leader)
        answer = (replica.id, replica.lives)
        if applied is Role.STALE:
            taken_for = has_resigned(state.leader, state.leader_epoch, replica.id, replica.epoch, replica.is_leader)
            if taken_for and self._renews and replica.renewed_for < state.controller_epoch:
                replica.renewed_for = state.controller_epoch
                self.renewed += 1
                self.register(replica)
            self.messages.append(lambda: self._answered(*answer, is_refused=False))
            return
        if self._suspects and replica.start and replica.start.refuses(T, state, self.now):
            self.refusals += 1
            self.messages.append(lambda: self._answered(*answer, is_refused=True))
            return
        self.messages.append(lambda: self._answered(*answer, is_refused=False))
        assert state.leader_epoch > replica.epoch
        known = replica.in_sync
        replica.epoch, replica.leader = state.leader_epoch, state.leader
        replica.is_leader = applied is not Role.FOLLOWS
        replica.in_sync = None
        if applied is not Role.LEADS_ON:
            replica.alone_since = replica.alone_from = None
        if not replica.is_leader:
            return
        replica.begin(state.leader_epoch)
        replica.in_sync = InSync(
            replica.id, state.leader_epoch, REPLICAS, state.isr, state.zk_version, replica.end, self.now
        )
        if not self._waits_for_epoch_start:
            replica.in_sync.epoch_start = 0
        if not self._forgets_followers and known is not None:
            replica.in_sync.followers = known.followers
            replica.in_sync._count()
        replica.advance()

    def _note_loss(self, leader: Replica) -> None:
        """Notes as lost what is committed and not in the log of a leader: no replica that was in sync may have it."""
        for offset, entry in tuple(self.committed.items()):
            if leader.log[offset : offset + 1] != [entry]:
                for member in self.isr:
                    log = self.replicas[member].log
                    assert log[offset : offset + 1] != [entry], f"replica {member} had {offset}, and did not lead"
                assert self._power
                self.lost += 1
                del self.committed[offset]
                for other in self.replicas.values():
                    # They cut it off when they hear of the leader.
                    other.high_watermark = min(other.high_watermark, offset)

    def _altered(self, replica: Replica, epoch: int, isr: tuple[int, ...], version: int) -> None:
        if replica.in_sync is not None and replica.in_sync.changed(epoch, isr, version):
            replica.advance()

    def produce(self, replica: Replica) -> None:
        if replica.is_alive and replica.is_leader:
            self.value += 1
            replica.append((replica.epoch, self.value))
            replica.advance()

    def fetch(self, replica: Replica) -> None:
        """One Fetch of a follower, as it comes to the broker that it takes for the leader."""
        leader = self.replicas.get(replica.leader)
        if not replica.is_alive or replica.is_leader or leader is None:
            return
        epoch, offset, last, life = replica.epoch, replica.end, replica.last_epoch, replica.lives

        def asked() -> None:
            if replica.lives != life:
                return
            if not leader.is_alive or not leader.is_leader or leader.epoch != epoch or leader.in_sync is None:
                return
            high_watermark = leader.high_watermark
            if last != NO_EPOCH:
                known, end = leader.end_of(last)
                if known < last or end < offset:
                    self.messages.append(lambda: self._diverged(replica, epoch, (offset, last), known, end))
                    return
            if offset > leader.end:
                return
            records = leader.log[offset : offset + self.rng.randint(0, 3)]
            leader.in_sync.fetched(replica.id, offset, 0, leader.end, self.now)
            self.messages.append(lambda: self._fetched(replica, epoch, offset, records, high_watermark))
            if self.rng.random() < 0.5 and (leader.serves(replica.id) or not self._hands_on):
                self.served += 1
                leader.raise_in_hub()
                return
            proposal = leader.in_sync.expansion(replica.id, leader.high_watermark)
            if proposal is not None:
                self._note_lives(proposal)
            leader.advance()

        self.messages.append(asked)

    def _note_lives(self, proposal: Proposal) -> None:
        self._lives.setdefault(proposal, {each: self.replicas[each].lives for each in REPLICAS})

    def _fetched(self, replica: Replica, epoch: int, offset: int, records: list[Entry], high_watermark: int) -> None:
        # A fetcher of another leader epoch, or of an older request, is fenced by its log.
        if not replica.is_alive or replica.is_leader or replica.epoch != epoch or replica.end != offset:
            return
        for entry in records:
            replica.append(entry)
        replica.high_watermark = min(high_watermark, replica.end)

    def _diverged(
        self, replica: Replica, epoch: int, asked: tuple[int, int], leader_epoch: int, leader_end: int
    ) -> None:
        # One Fetch is in flight: what answers an older one is about another log.
        if (replica.end, replica.last_epoch) != asked:
            return
        if not replica.is_alive or replica.is_leader or replica.epoch != epoch:
            return
        epochs = replica.epochs or [(NO_EPOCH, 0)]
        found = cut(replica.end, replica.high_watermark, replica.end_of, epochs, leader_epoch, leader_end)
        self.truncations += found.offset < replica.end
        replica.truncate(found.offset)

    # --- what happens ---

    def step(self) -> None:
        self.now += 1
        rng = self.rng
        replica = self.replicas[rng.choice(REPLICAS)]
        if replica.flush_is_due and replica.is_alive and rng.random() < 0.5:
            replica.flush()
        if self._power:
            self._step_of_power(replica)
        chance = rng.random()
        if chance < 0.5:
            # Also if there is none: more writes than followers can fetch would leave them out of the ISR for good.
            if self.messages:
                message = self.messages.pop(0 if rng.random() < 0.7 else rng.randrange(len(self.messages)))
                if rng.random() < 0.97:
                    message()
        elif chance < 0.6:
            self.produce(replica)
        elif chance < 0.80:
            self.fetch(replica)
        elif chance < 0.87:
            if replica.in_sync is not None and replica.is_alive:
                proposal = replica.in_sync.shrinking(replica.end, self.now, 10)
                if proposal is not None:
                    self._note_lives(proposal)
        elif chance < 0.967:
            # A proposal is sent until it is answered.
            if replica.in_sync is not None and replica.is_alive and (proposal := replica.in_sync.proposed) is not None:
                self._note_lives(proposal)
                life, czxid = replica.lives, replica.czxid
                self.messages.append(
                    lambda: self._alter(replica.id, czxid, proposal) if replica.lives == life else None
                )
        elif chance < 0.972:
            self._step_of_registrations(replica)
        elif chance < 0.99:
            if replica.is_alive and sum(each.is_alive for each in self.replicas.values()) > 2:
                replica.is_alive = False
            elif not replica.is_alive:
                replica.restart(rng)
                self.register(replica)
        else:
            self.elect()
        self.check()

    def _step_of_registrations(self, replica: Replica) -> None:
        if not self.has_controller and self.rng.random() < 0.5:
            self.take_over()
        elif self.rng.random() < 0.3:
            self.look()
        elif replica.is_alive and self.rng.random() < self._expiries:
            self.expire(replica)
        elif self.has_controller and len(self.registered) == len(REPLICAS):
            self.remove(replica)
        for each in self.replicas.values():
            if each.is_alive:
                self.ask(each)

    def _step_of_power(self, replica: Replica) -> None:
        chance = self.rng.random()
        if chance < 0.05:
            replica.flush()
        elif chance < 0.051:
            self._lose_power([replica])
        elif chance < 0.053:
            self._lose_power([each for each in self.replicas.values() if self.rng.random() < 0.9])
        elif chance < 0.08:
            if not replica.is_alive:
                replica.restart(self.rng)
                self.register(replica)
            elif replica.id in self.unheard | self.failed:
                # A controller asks until it is answered, and after a log directory event.
                self._tell_again(replica)
        elif chance < 0.11:
            self.offer(replica)
        elif chance < 0.111:
            self.order()

    def _lose_power(self, replicas: list[Replica]) -> None:
        lost = [replica for replica in replicas if replica.is_alive]
        self.power_losses += len(lost)
        for replica in lost:
            if self._disks and self.rng.random() < 0.5:
                # Of those that die together some have their disks still.
                replica.is_alive = False
            elif self._disks:
                replica.lose_disk()
            else:
                replica.lose_power()
        if len(lost) == len(REPLICAS) and self.rng.random() < 0.5:
            self.has_controller = False
            self.messages.clear()
            return
        # The sessions of some end before they are back.
        gone = lost if self.rng.random() < 0.7 else [replica for replica in lost if self.rng.random() < 0.5]
        for replica in gone:
            self._unregister(replica.id)
        self.look()

    def check(self) -> None:
        for replica in self.replicas.values():
            assert [epoch for epoch, _ in replica.epochs] == sorted({epoch for epoch, _ in replica.epochs})
            assert [epoch for epoch, _ in replica.log] == sorted(epoch for epoch, _ in replica.log)
            assert replica.high_watermark <= replica.end
            if replica.is_leader and replica.is_alive:
                for offset in range(replica.high_watermark):
                    known = self.committed.setdefault(offset, replica.log[offset])
                    assert known == replica.log[offset], f"offset {offset} was committed with another record"
            for other in self.replicas.values():
                both = min(replica.high_watermark, other.high_watermark)
                assert replica.log[:both] == other.log[:both], "logs differ below both high watermarks"
        for member in self.isr:
            if self.replicas[member].is_suspected:
                continue
            log = self.replicas[member].log
            for offset, entry in self.committed.items():
                assert log[offset : offset + 1] == [entry], f"replica {member} in sync has lost offset {offset}"
