"""Classes for asyncio made of trio's: each method of the one becomes one of the other.

A coroutine runs as a task of a guest run (`guest`) while its caller waits. A method that is no coroutine is called as
it is, since both loops share a thread. A block, such as `async with Producer(...)`, is entered and left by a task of
its own, since trio wants it to be left by the task that entered it.

A `Home` is what all objects of one `Cluster` share. It holds the run from the cluster's `async with` until its end.
Callbacks that are coroutines run as tasks of asyncio, in the context of the call during which they are called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import FunctionType, MethodType, TracebackType
from typing import Any, ClassVar, Self, TypeVar

import trio

from ottla.client.facade import is_wrapped, listens
from ottla.client.guest import Call, Guest, running_loop

T = TypeVar("T")

FACADES: dict[type, type[Facade]] = {}


class Home:
    """The cluster that objects belong to, and the run that it holds while it is open."""

    def __init__(self, cluster: Facade) -> None:
        self.cluster = cluster
        self.guest: Guest | None = None

    def here(self) -> Guest:
        """The run. Raises RuntimeError: there is none, or it is another loop's."""
        running_loop()
        if self.guest is None:
            raise RuntimeError("the cluster is not open: async with Cluster(...) as cluster")
        self.guest.check()
        return self.guest

    async def call(self, work: Callable[[], Awaitable[T]], *, late: Callable[[T], object] | None = None) -> T:
        """Runs it in the guest. As `Guest.call`."""
        return await self.here().call(work, late=late)


class Block:
    """The `async with` of an object of trio's."""

    def __init__(self, home: Home, inner: Any) -> None:
        self._home = home
        self._inner = inner
        self._opened: trio.Event = trio.Event()
        self._closing = trio.Event()
        self._reason: BaseException | None = None
        self._task: Call[None] | None = None
        self._was_opened = False
        self.value: Any = None
        """The object that `as` gives."""

    @property
    def is_open(self) -> bool:
        """True if it was entered, and nobody has begun to leave it."""
        return self._was_opened and not self._closing.is_set()

    async def open(self) -> None:
        guest = self._home.here()
        self._task = Call(guest, self._hold)
        try:
            await guest.call(self._opened.wait)
        except BaseException:
            # Whatever was opened meanwhile is closed again.
            self._task.scope.cancel()
            await self._task.wait()
            raise
        if not self._was_opened:
            await self._task.wait()

    async def close(self, reason: BaseException | None) -> None:
        """Leaves the block, with the exception with which the block of asyncio's was left. A second time it does
        nothing, nor where the cluster was closed first, which has ended it.
        """
        if self._task is None or not self.is_open or self._home.guest is None:
            return
        self._home.here()
        self._reason = reason
        trace = None if reason is None else reason.__traceback__
        self._closing.set()
        try:
            await self._task.wait()
        finally:
            if reason is not None:
                reason.__traceback__ = trace  # without the lines of `_hold`

    async def _hold(self) -> None:
        try:
            async with self._inner as self.value:
                self._was_opened = True
                self._opened.set()
                await self._closing.wait()
                if self._reason is not None:
                    raise self._reason
        except BaseException as problem:
            if problem is not self._reason:
                raise
        finally:
            self._opened.set()


class Facade:
    """An object for asyncio over one of trio's."""

    _of: ClassVar[type]
    _home: Home

    def __init__(self, *arguments: Any, **options: Any) -> None:
        given = (*arguments, *options.values())
        self._home = next((each._home for each in given if isinstance(each, Facade)), None) or Home(self)
        arguments = tuple(inward(each, self._home) for each in arguments)
        self._hold(self._of(*arguments, **{name: inward(value, self._home) for name, value in options.items()}))

    def _hold(self, inner: Any) -> None:
        self._inner = inner
        self._block: Block | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return outward(getattr(self._inner, name), self._home)


class Opened(Facade):
    """One that is for `async with`."""

    async def __aenter__(self) -> Self:
        self._home.here()
        if self._block is not None:
            raise RuntimeError("a block is entered once: make a new one")
        self._block = Block(self._home, self._inner)
        await self._block.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._block is not None:
            await self._block.close(problem)

    async def aclose(self) -> None:
        """As the end of the block. A second time it does nothing."""
        await self.__aexit__(None, None, None)


def facade(of: type[Any]) -> type[Facade]:
    """The class for asyncio of one of trio's. Its public methods are those that this one has."""
    members: dict[str, Any] = {"_of": of, "__doc__": of.__doc__, "__module__": "ottla.client.aio"}
    for name in dir(of):
        method = inspect.getattr_static(of, name)
        if is_wrapped(name) and isinstance(method, FunctionType):
            members[name] = _method(name, method)
    bases = tuple(FACADES[base] for base in of.__bases__ if base in FACADES)
    made = type(of.__name__, bases or (Opened if hasattr(of, "__aenter__") else Facade,), members)
    FACADES[of] = made
    return made


def stands_for(of: type) -> Callable[[type[Any]], type[Any]]:
    """Marks a class that has more of its own than `facade` gives: it is the one that leaves for objects of `of`."""

    def mark(kind: type[Facade]) -> type[Facade]:
        kind.__doc__ = of.__doc__
        FACADES[of] = kind
        return kind

    return mark


def _method(name: str, method: Any) -> Any:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def call(self: Facade, /, *arguments: Any, **options: Any) -> Any:
            home = self._home
            bound = _bound(self, name, arguments, options)
            return outward(await home.call(bound), home)

    elif inspect.isasyncgenfunction(inspect.unwrap(method)) and not inspect.isasyncgenfunction(method):

        @functools.wraps(method)
        def call(self: Facade, /, *arguments: Any, **options: Any) -> Any:
            return _within(self._home, _bound(self, name, arguments, options))

    else:

        @functools.wraps(method)
        def call(self: Facade, /, *arguments: Any, **options: Any) -> Any:
            self._home.here()
            return outward(_bound(self, name, arguments, options)(), self._home)

    return call


def _bound(self: Facade, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The method of trio's, with these arguments."""
    home = self._home
    return functools.partial(
        getattr(self._inner, name),
        *(inward(each, home) for each in arguments),
        **{key: inward(value, home) for key, value in options.items()},
    )


@asynccontextmanager
async def _within(home: Home, make: Callable[[], Any]) -> AsyncIterator[Any]:
    home.here()
    block = Block(home, make())
    await block.open()
    try:
        yield outward(block.value, home)
    except BaseException as problem:
        await block.close(problem)
        raise
    await block.close(None)


class Iterated:
    """An iterator of trio's, for asyncio."""

    def __init__(self, home: Home, inner: AsyncIterator[Any]) -> None:
        self._home = home
        self._inner = inner
        self._late: list[Any] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._late:
            return self._late.pop()
        return outward(await self._home.call(self._inner.__anext__, late=self._late.append), self._home)


def outward(value: Any, home: Home) -> Any:
    """A value that leaves the guest."""
    if (kind := FACADES.get(type(value))) is not None:
        if value is home.cluster._inner:
            return home.cluster
        made = kind.__new__(kind)
        made._home = home
        made._hold(value)
        return made
    if hasattr(type(value), "__anext__"):
        return Iterated(home, value)
    return value


def inward(value: Any, home: Home) -> Any:
    """An argument that goes into the guest."""
    if isinstance(value, Facade):
        return value._inner
    if isinstance(value, FunctionType | MethodType | functools.partial):
        return _callback(value, home)
    return _Listener(value, home) if listens(type(value)) else value


class _Listener:
    """An object whose methods are called back."""

    def __init__(self, inner: Any, home: Home) -> None:
        self._inner = inner
        self._home = home

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _callback(found, self._home) if callable(found) else found


def _callback(function: Callable[..., Any], home: Home) -> Callable[..., Awaitable[Any]]:
    async def called(*arguments: Any, **options: Any) -> Any:
        async def run() -> Any:
            found = function(*arguments, **options)
            return await found if inspect.isawaitable(found) else found

        assert home.guest is not None
        return await home.guest.ask(run)

    return called
