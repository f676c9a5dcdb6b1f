"""The term of an active controller, from its election to its end: the copy of the cluster, and those who act on it.

Each part acts on one subject and knows the parts that it needs, in one direction: channels < states < moves < topics <
deletions < brokers and answers. What all share is the cluster (`model`), the tree as this controller may write to it
(`store`), and the queue of events. `handling` has which of them an event is for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from ottla.controller.answers import Answers
from ottla.controller.away import AwayBrokers
from ottla.controller.brokers import Brokers
from ottla.controller.channel import Connect
from ottla.controller.channels import Channels
from ottla.controller.deletions import Deletions
from ottla.controller.election import Elected
from ottla.controller.events import ControllerChange, Events, answered
from ottla.controller.left_out import LeftOut
from ottla.controller.model import Cluster
from ottla.controller.moves import Moves
from ottla.controller.neighbours import Proof
from ottla.controller.notifications import Notifications
from ottla.controller.partition_states import PartitionStates
from ottla.controller.relapses import Relapses
from ottla.controller.store import ControllerMoved, FencedTree
from ottla.controller.topics import Topics
from ottla.controller.unclean_elections import Unclean, UncleanElections
from ottla.coordination import znodes
from ottla.coordination.tree import Tree


class Standing(NamedTuple):
    """The broker on which a term is held, the same in each term."""

    broker_id: int
    listener: str
    """The name of the inter-broker listener."""
    connect: Connect
    timeout_ms: int
    """How long a broker has for an answer."""
    session_s: float | None
    """How long sessions live without their processes; None if their ends are waited for."""
    delete_topics: bool
    unclean: Unclean
    proof: Callable[[int], Proof | None]
    """The proof that a broker's process is gone, if there is one now."""
    is_at_home: Callable[[], Awaitable[bool]]
    """True if the tree is that of this cluster."""


class Term:
    """One term. Its tasks live in `nursery`, and end with it."""

    def __init__(self, elected: Elected, tree: Tree, events: Events, nursery: trio.Nursery, standing: Standing) -> None:
        self.elected = elected
        self.events = events
        self.nursery = nursery
        self.cluster = cluster = Cluster()
        self.store = store = FencedTree(tree, elected.epoch, elected.epoch_version)
        left_out, relapses = LeftOut(), Relapses()
        self.channels = channels = Channels(
            cluster,
            nursery,
            lambda request, response: events.put(answered(request, response)),
            broker_id=standing.broker_id,
            epoch=elected.epoch,
            listener=standing.listener,
            connect=standing.connect,
            timeout_ms=standing.timeout_ms,
        )
        unclean = UncleanElections(
            cluster, tree, events, nursery, left_out, unclean=standing.unclean, session_s=standing.session_s
        )
        self.states = states = PartitionStates(cluster, store, channels, unclean)
        self.moves = moves = Moves(cluster, store, states, channels, events, nursery)
        self.topics = Topics(
            cluster, store, states, channels, moves, events, nursery, left_out, is_at_home=standing.is_at_home
        )
        self.deletions = deletions = Deletions(
            cluster, store, channels, moves, self.topics, events, is_enabled=standing.delete_topics
        )
        self.away = AwayBrokers(cluster, channels, events, nursery, standing.session_s)
        self.brokers = Brokers(
            cluster,
            store,
            states,
            channels,
            moves,
            deletions,
            relapses,
            unclean,
            self.away,
            events,
            left_out,
            proof=standing.proof,
        )
        self.answers = Answers(cluster, states, moves, deletions, relapses, events, nursery)
        self.notifications = Notifications(cluster, store, channels, moves, events, left_out)
        # A controller before this one may have removed brokers early.
        unclean.put_off()

    async def check_place(self) -> None:
        """Is the place still ours? An administrator may have deleted the node to move the controller. Raises
        ControllerMoved.
        """
        node = await self.store.tree.exists(znodes.CONTROLLER, self.events.watch(ControllerChange()))
        if node is None or node.czxid != self.elected.czxid:
            raise ControllerMoved("/controller is not ours any more")

    def end(self) -> None:
        """At once: nothing more is sent in its name."""
        self.nursery.cancel_scope.cancel()
