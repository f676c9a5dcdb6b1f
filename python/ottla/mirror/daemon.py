"""All flows of a file in one process, as MirrorMaker 2's dedicated mode: each flow's topics, copying and notes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.client.connection import TIMEOUT_MS
from ottla.client.errors import ConnectionLost
from ottla.errors import KafkaError, ProtocolError, RemoteProtocolError
from ottla.mirror.checkpoints import Checkpoints
from ottla.mirror.config import ClusterConfig, FlowConfig, MirrorConfig
from ottla.mirror.copying import Copying
from ottla.mirror.figures import Figures
from ottla.mirror.notes import Notes
from ottla.mirror.syncs import Syncs
from ottla.mirror.topics import Topics

logger = logging.getLogger(__name__)

RETRY_S = 1.0
#: A flow that cannot begin is tried again later each time, up to this.
RETRY_S_MAX = 30.0
#: How long a cluster may take to answer until that is said, and others are named as ready.
SAY_S = 5.0
#: How long what is on its way may take when the daemon is stopped.
STOP_S = 10.0
#: What clusters, networks and files are to blame for.
FAILURES = (KafkaError, OSError, ProtocolError, ValueError)


class Mirror:
    """The flows of a configuration, each of which begins, fails and begins anew by itself. `figures` has what each has
    done so far.
    """

    def __init__(self, config: MirrorConfig, *, timeout_ms: float = TIMEOUT_MS) -> None:
        """`timeout_ms` is how long a cluster may be away until that is said."""
        self.config = config
        self.figures: dict[str, Figures] = {str(flow): Figures() for flow in config.flows}
        #: Set, and replaced by a new one, when a flow begins or ends.
        self.changed = trio.Event()
        self._flows = [_Flow(flow, self.figures[str(flow)], timeout_ms, self._note) for flow in config.flows]
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def running(self) -> tuple[str, ...]:
        """The flows that copy now, in the file's order."""
        return tuple(str(each.config) for each in self._flows if each.copying is not None)

    @property
    def waiting(self) -> dict[str, str]:
        """The flows that do not copy now, and why."""
        return {str(each.config): each.why for each in self._flows if each.copying is None}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Mirrors until `stop`, or until it is cancelled. It is started when each flow copies, or has said why it does
        not.
        """
        for each in self.config.unused:
            logger.warning("%s", each)
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for flow in self._flows:
                        nursery.start_soon(flow.run)
                    for flow in self._flows:
                        await flow.settled.wait()
                    task_status.started()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Ends all flows. What is on its way is committed, if that takes no longer than `STOP_S`."""
        for flow in self._flows:
            flow.stop()
        with trio.move_on_after(STOP_S):
            await self._ended.wait()
        self._scope.cancel()

    async def ended(self) -> None:
        """Waits for the end of all flows."""
        await self._ended.wait()

    def _note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class _Flow:
    """One flow, which is tried again until it is stopped. `copying` is there while it copies."""

    def __init__(self, config: FlowConfig, figures: Figures, timeout_ms: float, note: Callable[[], None]) -> None:
        self.config = config
        self.copying: Copying | None = None
        #: Why it waits, where it does.
        self.why = "it begins"
        #: It copies, or has said why it does not.
        self.settled = trio.Event()
        self._figures = figures
        self._timeout_ms = timeout_ms
        self._note = note
        self._is_stopping = False
        self._scope = trio.CancelScope()

    def stop(self) -> None:
        """Ends it: at once if it does not copy."""
        self._is_stopping = True
        if self.copying is not None:
            self.copying.stopping = True
        else:
            self._scope.cancel()

    async def run(self) -> None:
        """Until it is stopped."""
        wait_s = RETRY_S
        try:
            with self._scope:
                while not self._is_stopping:
                    try:
                        await self._run_once()
                    except Exception as error:  # whatever it is: the other flows go on
                        if self.copying is not None:
                            wait_s = RETRY_S
                        self._say(error, wait_s)
                    finally:
                        self.copying = None
                        self._note()
                    self.settled.set()
                    if not self._is_stopping:
                        await trio.sleep(wait_s)
                    wait_s = min(2 * wait_s, RETRY_S_MAX)
        finally:
            self.settled.set()

    def _say(self, error: Exception, wait_s: float) -> None:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        trace = None if isinstance(cause, FAILURES) else error
        self.why = str(cause) or repr(cause)
        logger.warning("%s waits, and is tried again in %g s: %s", self.config, wait_s, self.why, exc_info=trace)

    def _cluster(self, config: ClusterConfig) -> Cluster:
        return Cluster(
            config.servers, client_id=config.client_id, timeout_ms=self._timeout_ms, security=config.security
        )

    async def _reach(self, config: ClusterConfig, cluster: Cluster) -> None:
        """Raises what keeps the cluster from answering: sooner at first, so that others need not wait for it."""
        patience_s = self._timeout_ms / 1000 if self.settled.is_set() else SAY_S
        try:
            with trio.fail_after(patience_s):
                await cluster.any_connection()
        except trio.TooSlowError:
            raise TimeoutError(
                f"{config.alias}: no broker answers within {patience_s:g} s at {', '.join(config.servers)}"
            ) from None
        except FAILURES as error:
            raise ConnectionLost(f"{config.alias}: {error}") from error

    async def _run_once(self) -> None:
        flow, figures = self.config, self._figures
        async with (
            self._cluster(flow.reads) as source,
            self._cluster(flow.writes) as target,
        ):
            await self._reach(flow.reads, source)
            await self._reach(flow.writes, target)
            async with Notes(flow, source, target) as notes:
                topics = Topics(flow, Admin(source), Admin(target))
                syncs = Syncs(flow.offset_lag_max)
                checkpoints = Checkpoints(flow, Admin(source), Admin(target), syncs)
                await notes.make_topics()
                await topics.refresh()
                copying = self.copying = Copying(flow, source, target, topics, syncs, notes, figures)
                copying.stopping = self._is_stopping
                self.why = "it ends"
                self.settled.set()
                self._note()

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
