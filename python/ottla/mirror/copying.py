"""Records are copied from one cluster to the other: one instance is what Connect runs as MirrorSourceTasks.

Several instances of a flow share its partitions as members of a group in the *target*, whose topics are the mirrors.
What that group commits for a mirror is the offset to go on from in the *source*. So an instance that was replaced can
neither commit nor, with exactly once, end a transaction: the group's coordinator refuses the old generation (KIP-447).

| what                        | at least once                         | exactly once                              |
|-----------------------------|---------------------------------------|-------------------------------------------|
| batches                     | of an idempotent producer             | in a transaction, at most `COMMIT_S` long |
| source offsets              | committed when these are acknowledged | committed in the transaction              |
| a partition without leader  | waits alone                           | the same; a transaction that it is part   |
|                             |                                       | of is aborted and given up with its id    |
| damaged records             | their partition is looked at again later  | the same                                  |
| after a failure             | goes on from what is committed        | the same; the rest is aborted             |

Batches travel unopened where they can (`rust/records/mirror.rs`). Where mirrors have the names of their topics, each
record says in a header where it comes from, and does not go where it was.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from typing import Final

import trio

from ottla import _core
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.transactional import TransactionalProducer
from ottla.errors import ConcurrentTransactions, KafkaError, LeaderNotAvailable, MessageTooLarge, RemoteProtocolError
from ottla.mirror.config import FlowConfig
from ottla.mirror.figures import Figures
from ottla.mirror.notes import Notes
from ottla.mirror.share import REPLACED, SESSION_MS, Share
from ottla.mirror.syncs import Syncs
from ottla.mirror.topics import Topics

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
TRANSACTION_MS: Final = 10_000
#: How soon an instance hears of others that come and go.
HEARTBEAT_MS: Final = 500
#: The producer does not count: what waits for a partition of the target would keep the others from being copied.
UNBOUNDED: Final = 1 << 62
#: Smaller batches that follow each other are joined up to this size.
JOIN_BYTES: Final = 16 << 10
#: The record header that says which clusters a record was in, where names do not.
HEADER: Final = b"ottla.mirror.source"


def group_of(flow: FlowConfig) -> str:
    """The group whose members share the flow."""
    return f"ottla-mirror-{flow.source}-{flow.target}"


class Copying:
    """The copying of one flow by one instance (MirrorMaker 2: MirrorSourceConnector and its tasks). Setting `stopping`
    ends it: the records that are on their way are delivered and committed first.
    """

    def __init__(
        self,
        flow: FlowConfig,
        source: Cluster,
        target: Cluster,
        topics: Topics,
        syncs: Syncs,
        notes: Notes,
        figures: Figures,
    ) -> None:
        self.stopping = False
        self._syncs = syncs
        self._notes = notes
        self._flow = flow
        self._source = source
        self._target = target
        self._topics = topics
        self._figures = figures
        self._transactional_id = self._new_id()
        self._join_bytes = JOIN_BYTES

    def _new_id(self) -> str:
        return f"{group_of(self._flow)}-{uuid.uuid4().hex[:12]}"

    async def run(self) -> None:
        """Copies until it is stopped. What fails is tried again, from what is committed."""
        while not self.stopping:
            try:
                await self._share()
            except REPLACED as error:
                logger.info("%s: this instance joins the others anew: %s", self._flow, error)
            except (KafkaError, OSError, RemoteProtocolError) as error:
                self._figures.errors += 1
                logger.warning("%s: copying begins anew in %g s: %s", self._flow, RETRY_S, error)
                if isinstance(error, LeaderNotAvailable | ConcurrentTransactions):
                    # The end of a transaction waits for the leaders of all of its partitions, and the id with it.
                    self._transactional_id = self._new_id()
                if isinstance(error, MessageTooLarge):
                    # From now on a batch is no larger than in the source.
                    self._join_bytes = 1
                await trio.sleep(RETRY_S)
                # A topic may be gone.
                with suppress(KafkaError, OSError, RemoteProtocolError):
                    await self._topics.refresh()

    async def _share(self) -> None:
        """Copies this instance's share as long as nothing fails."""
        flow = self._flow
        self._figures.positions.clear()
        self._figures.ends.clear()
        producer = (
            TransactionalProducer(
                self._target,
                self._transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
                memory_bytes=UNBOUNDED,
            )
            if flow.exactly_once
            else Producer(self._target, memory_bytes=UNBOUNDED)
        )
        member = Consumer(
            self._target,
            group=group_of(flow),
            assignors=["cooperative-sticky"],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit=False,
            start="earliest",
            read_committed=True,
        )
        async with producer, member:
            header = (HEADER, flow.source.encode()) if flow.names.is_identity else None
            batches = _core.Mirror(
                transactional=flow.exactly_once,
                join_bytes=self._join_bytes,
                header=header,
                stops=[flow.target.encode()] if header else [],
            )
            share = Share(flow, self._source, member, producer, batches, self._syncs, self._notes, self._figures)
            topics: dict[str, int] = {}
            looks = self._topics.looks
            try:
                while not self.stopping:
                    if looks != self._topics.looks:
                        looks = self._topics.looks
                        await share.verify()
                    if topics != self._topics.mirrored:
                        topics = dict(self._topics.mirrored)
                        share.subscribe(topics)
                    await share.step()
                await share.finish()
            except BaseException as error:
                await share.give_up(error)
                raise
