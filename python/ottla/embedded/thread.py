"""The thread and the loop of one life of a broker inside a program."""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from ottla.broker.broker import Broker
from ottla.broker.faults.dispatch import Interception
from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.config import BrokerConfig
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import TreeError
from ottla.embedded import moves
from ottla.embedded.clock import Clock
from ottla.embedded.moves import Coordinated
from ottla.embedded.pause import Pause
from ottla.embedded.plan import OWN_CLIENT, Plan
from ottla.embedded.tree import ClusterTree
from ottla.kafka import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.call import AnyCall

T = TypeVar("T")
#: How long a broker is waited for to hear of a topic.
TOLD_S: Final = 10.0
#: How often it is looked whether a broker that is to answer has ended.
LOOK_S: Final = 0.1


class BrokerFailed(RuntimeError):
    """The broker could not start, or has ended by itself. The text says why; `__cause__` is the error."""


class BrokerThread:
    """One start of a broker and its end. `start` first; then `stop` or `kill`, once."""

    def __init__(
        self, name: str, settings: Mapping[str, str], plan: Plan, clock: Clock, shared: ClusterTree | None = None
    ) -> None:
        self._name = name
        self._plan = plan
        self._clock = clock
        self._shared = shared
        self._config = BrokerConfig.load(None, settings)
        self._begun: Future[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = Future()
        self._started: Future[Broker] = Future()
        self._failure: BaseException | None = None
        self._pause: Pause | None = None
        # A program that forgets to stop it ends all the same; `_at_exit` stops it before that.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Returns when clients are served. Raises BrokerFailed. An interrupt of the wait ends the start, too."""
        _alive.add(self)
        self._thread.start()
        self._token, self._serves = self._begun.result()
        try:
            self._broker = broker = self._started.result()
        except BaseException as error:
            self._cancel()
            self._thread.join()
            if self._failure is None:
                raise
            cause = _cause(error)
            raise BrokerFailed(f"{self._name} cannot start: {_said(cause)}") from cause
        self.address = broker.address
        self.port = broker.addresses.listening[0].port

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Waits for a clean end, for which one that is paused goes on. Raises BrokerFailed if it failed before."""
        self._cancel()
        self._end_pause()
        self._thread.join()
        self._check()

    def kill(self) -> None:
        """Waits for an end that leaves things as a killed process does. Raises BrokerFailed if it failed before."""
        if not self._end_pause(self._die_unheard):
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._die)
        self._thread.join()
        self._check()

    def _die(self) -> None:
        if self._shared is not None:
            self._shared.left(self._broker.tree, self._session_s)
        self._broker.die()

    def _die_unheard(self) -> None:
        """Dies without a look at the requests that came while it stood still."""
        self._interception.end()
        self._broker.requests.intercept(lambda _: _dropped)
        self._die()

    @property
    def _session_s(self) -> float:
        return self._config.get_int("zookeeper.session.timeout.ms") / 1000

    # --- standing still ---

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def pause(self) -> None:
        """Returns when the broker stands still. Raises BrokerFailed if it has ended instead."""
        if self._pause is not None:
            return
        pause = self._pause = Pause(self._thread.is_alive)
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(lambda: self._nursery.start_soon(self._stand_still, pause))
        pause.wait()
        if not self._thread.is_alive():
            self._pause = None
        self._check()

    def resume(self) -> None:
        """Returns when the broker goes on and knows whether its session is over, or has ended."""
        pause = self._pause
        if self._end_pause() and pause is not None:
            pause.wait_for_end()

    def _end_pause(self, then: Callable[[], object] | None = None) -> bool:
        """Has the broker do `then` first of all. False if it was not paused."""
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.end(then)
        return pause is not None

    async def _stand_still(self, pause: Pause) -> None:
        broker, shared = self._broker, self._shared
        broker.leases.step_aside(True)
        async with broker.following.at_rest():
            silence = None if shared is None else shared.unheard(broker.tree, self._session_s)
            pause.hold()
            is_over = shared is not None and silence is not None and not shared.heard(silence)
            tree = broker.tree
            if is_over and isinstance(tree, EmbeddedTree):
                tree.has_expired()
        # The plan may be another one meanwhile.
        self._interception.arrange()
        broker.leases.step_aside(self._plan.is_used())
        pause.over()
        if is_over and isinstance(tree, EmbeddedTree):
            # Where the tree itself has failed, the broker ends anyway.
            with contextlib.suppress(TreeError):
                await tree.renew()

    def create_topic(self, name: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Raises what `Admin.create_topic` raises, and BrokerFailed."""

        async def create() -> None:
            async with Cluster(self.address, client_id=OWN_CLIENT) as cluster:
                await Admin(cluster).create_topic(name, partitions, replicas, settings)

        self._call(create)

    def knows(self, topic: str, partitions: int) -> None:
        """Returns when the broker has been told of a topic: then it leads what it is to lead. Waits for a while only,
        since nobody may be there to tell it.
        """

        known = self._broker.metadata
        self._wait_until(lambda: len(known.topics.get(topic, ())) >= partitions)

    def knows_controller(self, broker_id: int) -> None:
        """Returns when the broker has been told who controls. Waits for a while only, as `knows` does."""
        known = self._broker.metadata
        self._wait_until(lambda: known.controller_id == broker_id)

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            with trio.move_on_after(TOLD_S):
                await self._broker.metadata.wait_until(holds)

        self._call(wait)

    def coordinating(self, what: Coordinated) -> TopicPartition:
        """As `moves.coordinating`. Raises BrokerFailed, too."""

        async def find() -> TopicPartition:
            async with Cluster(self.address, client_id=OWN_CLIENT) as cluster:
                return await moves.coordinating(cluster, what)

        return self._call(find)

    def prefer(self, partition: TopicPartition, to: int) -> None:
        """As `moves.prefer`. Raises BrokerFailed, too."""

        async def prefer() -> None:
            async with Cluster(self.address, client_id=OWN_CLIENT) as cluster:
                await moves.prefer(cluster, partition, to)

        self._call(prefer)

    def arrange(self) -> None:
        """Returns when the broker has looked at its plan, or has ended. Any thread may call it, a loop's too: it takes
        no longer than a turn of the broker's loop.
        """
        done = threading.Event()

        def look() -> None:
            self._interception.arrange()
            done.set()

        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(look)
            # One that is paused looks before it does anything else.
            while not done.wait(LOOK_S) and self._thread.is_alive() and not self.is_paused:
                pass

    def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work` in the broker's loop. Raises what it raises, and BrokerFailed if there is no loop any more."""
        try:
            return trio.from_thread.run(work, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            self._check()
            raise BrokerFailed(f"{self._name} has ended meanwhile") from None

    def _cancel(self) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._serves.cancel)

    def _check(self) -> None:
        if self._failure is not None:
            cause = _cause(self._failure)
            raise BrokerFailed(f"{self._name} has failed: {_said(cause)}") from cause

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            self._failure = error
            if not self._started.done():
                self._started.set_exception(error)
        finally:
            _alive.discard(self)

    async def _serve(self) -> None:
        with trio.CancelScope() as serves:
            self._begun.set_result((trio.lowlevel.current_trio_token(), serves))
            try:
                async with Broker.start(self._config, shared=self._shared, wall_ms=self._clock.now_ms) as broker:
                    self._interception = Interception(broker.requests, broker.leases, broker.turn, self._plan)
                    self._interception.arrange()
                    async with trio.open_nursery() as self._nursery:
                        self._started.set_result(broker)
                        try:
                            await trio.sleep_forever()
                        finally:
                            self._interception.end()
            finally:
                await self._give_back()

    async def _give_back(self) -> None:
        """A process that ends gives back the locks of log directories that failed. This one goes on."""
        if not self._started.done() or self._started.exception() is not None:
            return
        directories = self._started.result().logs.directories
        with trio.CancelScope(shield=True):
            for directory in directories.offline:
                await directories.close_failed(directory)


def _dropped(call: AnyCall, _: Any) -> None:
    """In the place of the handlers of a broker that dies."""
    call.request.close()


def _cause(error: BaseException) -> BaseException:
    """The first error in a group, and in what trio makes of those that are not caught."""
    if isinstance(error, BaseExceptionGroup):
        return _cause(error.exceptions[0])
    if isinstance(error, trio.TrioInternalError) and error.__cause__ is not None:
        return _cause(error.__cause__)
    return error


def _said(error: BaseException) -> str:
    """The text of an error, without a number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


_alive: weakref.WeakSet[BrokerThread] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Stops those that run when the program ends."""
    for thread in [*_alive]:
        if thread.is_alive and thread._begun.done():
            thread._cancel()
            thread._end_pause()
            thread._thread.join()
