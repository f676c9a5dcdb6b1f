"""A new controller takes over: it reads everything, arms every watch, and tells every broker everything. One whose
watches were lost with the connection looks at everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.controller import moves, orders
from ottla.controller.events import LookAtRest
from ottla.controller.model import Broker
from ottla.controller.term import Term
from ottla.coordination import znodes
from ottla.coordination.tree import ensure_one, get_or_none
from ottla.kafka import TopicPartition
from ottla.slices import in_slices


async def take_over(term: Term, named: Callable[[], Iterable[tuple[Broker, float | None]]]) -> None:
    """`named` tells of the brokers that clients are told of here, with the time until when if they are away."""
    cluster, channels = term.cluster, term.channels
    await term.check_place()
    await _make_feature_node(term)
    await term.notifications.discard()
    await term.brokers.read_all()
    term.away.name_on((broker, until_s) for broker, until_s in named() if broker.id not in cluster.brokers)
    await term.topics.read_all()
    names = [name async for name, _ in in_slices(cluster.partitions())]
    resigned = await _read_states(term, names)
    cluster.suspect(cluster.brokers.values())

    # Brokers must know who lives before they can follow anyone.
    await channels.tell_metadata()
    await term.deletions.begin_marked()
    settled = await term.states.settle(names)
    await term.states.lead_anew(sorted(name for name in resigned - settled if not cluster.is_deleting(name.topic)))
    batch = channels.batch()
    async for name in in_slices(names):
        partition = cluster.topics[name.topic][name.partition]
        others = moves.not_to_be_told(partition) if partition.removing else None
        batch.roles_of(name, only={*partition.replicas} - others if others else None)
    await channels.send(batch)
    await term.deletions.look()
    await term.moves.resume(names)
    await term.moves.ordered_in_tree()
    await orders.elections_in_tree(term)


async def look_again(term: Term) -> None:
    """Every watch was lost with the connection, and what happened since is unknown: read what they watched."""
    term.events.drop_looks()
    term.events.put(LookAtRest())
    await term.check_place()
    await term.brokers.look()


async def look_at_rest(term: Term) -> None:
    """The other part of it, after what is more urgent."""
    await term.topics.look(again=True)
    await term.deletions.look()
    await term.notifications.isr_changes()
    await term.notifications.log_dir_events()
    await term.moves.ordered_in_tree()
    await orders.elections_in_tree(term)


async def _make_feature_node(term: Term) -> None:
    tree = term.store.tree
    if await get_or_none(tree, znodes.FEATURE) is None:
        await ensure_one(tree, znodes.FEATURE, znodes.EMPTY_FEATURE)


async def _read_states(term: Term, names: list[TopicPartition]) -> set[TopicPartition]:
    """Takes over the states of partitions. Returns those whose leaders may have resigned. They are led by the same in
    the next leader epoch: else they would never lead again. A controller before this one has removed the registrations
    of their leaders, and elected nobody.
    """
    cluster, resigned = term.cluster, set()
    async for name, stored in in_slices((await term.store.read_states(names)).items()):
        cluster.set_state(name, stored.state, stored.version)
        leader = cluster.brokers.get(stored.state.leader)
        if leader is not None and leader.may_have_resigned(stored.mzxid):
            resigned.add(name)
    return resigned
