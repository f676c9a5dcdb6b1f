"""All flows of a file, in one process: for each the topics, the copying, and what it notes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.client.connection import TIMEOUT_MS
from ottla.errors import KafkaError, RemoteProtocolError
from ottla.mirror.checkpoints import Checkpoints
from ottla.mirror.config import ClusterConfig, FlowConfig, MirrorConfig
from ottla.mirror.copying import Copying, Figures
from ottla.mirror.notes import Notes
from ottla.mirror.syncs import Syncs
from ottla.mirror.topics import Topics

logger = logging.getLogger(__name__)

RETRY_S = 1.0
#: How long what is on its way may take when the daemon is stopped.
STOP_S = 10.0


class Mirror:
    """The flows of a configuration. `figures` has what each has done so far."""

    def __init__(self, config: MirrorConfig, *, timeout_ms: float = TIMEOUT_MS) -> None:
        """`timeout_ms` is how long a cluster may be away until that is said."""
        self.config = config
        self._timeout_ms = timeout_ms
        self.figures: dict[str, Figures] = {str(flow): Figures() for flow in config.flows}
        self._flows: list[Copying] = []
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Mirrors until `stop`, or until it is cancelled. It is started when the topics of all flows are known."""
        for each in self.config.unused:
            logger.warning("%s", each)
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                for flow in self.config.flows:
                    await nursery.start(self._run_flow, flow)
                task_status.started()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Ends all flows. What is on its way is committed, if that takes no longer than `STOP_S`."""
        for copying in self._flows:
            copying.stopping = True
        with trio.move_on_after(STOP_S):
            await self._ended.wait()
        self._scope.cancel()

    async def ended(self) -> None:
        """Waits for the end of all flows."""
        await self._ended.wait()

    def _cluster(self, config: ClusterConfig) -> Cluster:
        return Cluster(
            config.servers, client_id=config.client_id, timeout_ms=self._timeout_ms, security=config.security
        )

    async def _run_flow(self, flow: FlowConfig, *, task_status: trio.TaskStatus[None]) -> None:
        figures = self.figures[str(flow)]
        async with (
            self._cluster(flow.reads) as source,
            self._cluster(flow.writes) as target,
            Notes(flow, source, target) as notes,
        ):
            topics = Topics(flow, Admin(source), Admin(target))
            syncs = Syncs(flow.offset_lag_max)
            checkpoints = Checkpoints(flow, Admin(source), Admin(target), syncs)
            await _until_done(flow, "its own topics", notes.make_topics)
            await _until_done(flow, "the topics", topics.refresh)
            task_status.started()
            copying = Copying(flow, source, target, topics, syncs, notes, figures)
            self._flows.append(copying)

            async def tell_checkpoints() -> None:
                await notes.write_syncs(await syncs.take(all_of_them=True))
                await notes.write_checkpoints(await checkpoints.news(figures.positions.keys()))

            async def commit_offsets() -> None:
                await checkpoints.commit(figures.positions.keys())

            async with trio.open_nursery() as nursery:
                for what, every_s, job in (
                    ("the topics", flow.refresh_topics_s, topics.refresh),
                    ("the settings of topics", flow.sync_configs_s, topics.sync_settings),
                    ("heartbeats", flow.heartbeats_s, notes.beat),
                    ("checkpoints", flow.checkpoints_s, tell_checkpoints),
                    ("the offsets of groups", flow.sync_offsets_s, commit_offsets),
                ):
                    if every_s is not None:
                        nursery.start_soon(_again_and_again, flow, what, every_s, job)
                nursery.start_soon(_watch_groups, flow, checkpoints)
                await copying.run()
                nursery.cancel_scope.cancel()


async def _until_done(flow: FlowConfig, what: str, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await job()
            return
        except (KafkaError, OSError, RemoteProtocolError) as error:
            logger.warning("%s: %s cannot be seen to, which is tried again: %s", flow, what, error)
            await trio.sleep(RETRY_S)


async def _again_and_again(flow: FlowConfig, what: str, every_s: float, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        await trio.sleep(every_s)
        await _until_done(flow, what, job)


async def _watch_groups(flow: FlowConfig, checkpoints: Checkpoints) -> None:
    """Also where groups that come later are not looked for, those that are there are."""
    await _until_done(flow, "the groups", checkpoints.refresh_groups)
    if flow.refresh_groups_s is not None:
        await _again_and_again(flow, "the groups", flow.refresh_groups_s, checkpoints.refresh_groups)
