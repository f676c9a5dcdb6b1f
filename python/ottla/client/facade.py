"""Blocking classes made of trio's: each method of the one becomes one of the other, without await.

One thread runs one trio loop for all of them. It is started at first use and ends with the interpreter, which closes
what is open first: producers deliver what they have taken. A call is a task of that loop, and its caller waits. An
object that is for `async with` is opened by `with` or by its first call, in a task of its own, since trio wants a block
to be left by who entered it.

Callbacks (functions, and objects with methods `on_...`) that are given to a method run in the thread that waits for the
call which calls them, so that they may use everything, blocking calls too. Where nobody waits they run in a thread of
trio's.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import SimpleQueue
from types import FunctionType, MethodType, TracebackType
from typing import Any, ClassVar, Self, TypeVar

import trio

from ottla._core import OneAtATime

T = TypeVar("T")

#: What makes no sense without a loop: connections of trio's, and what is called with coroutines. `aclose` is `close`.
LEFT_OUT = frozenset({"aclose", "any_connection", "connection", "is_in_vain", "lent_connection", "retry"})


class _Ended(Exception):
    """The loop ended under a call."""


class _Call:
    """A caller that waits: for callbacks to run, and for the end."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[tuple[Callable[[], Any] | None, Any, BaseException | None]] = SimpleQueue()
        self.scope = trio.CancelScope()

    def end(self, value: Any, problem: BaseException | None) -> None:
        self._messages.put((None, value, problem))

    def run(self, callback: Callable[[], None]) -> None:
        """Has the waiting thread run this."""
        self._messages.put((callback, None, None))

    def wait(self) -> Any:
        while True:
            callback, value, problem = self._messages.get()
            if callback is not None:
                callback()
            elif problem is not None:
                raise problem
            else:
                return value


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


class Loop:
    """A thread with a trio loop."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.open: list[_Block] = []
        """What has to be closed, in the order in which it was opened."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), name="ottla-client", daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._stop = trio.Event()
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Runs it in the loop, and waits. Ctrl-C cancels it.

        Raises:
            RuntimeError: the process is a fork, this is the loop's own thread, or the interpreter ends.
        """
        if self.pid != os.getpid():
            raise RuntimeError("this was made before a fork, and its thread is not in the child: make a new one there")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the loop's own thread would wait for itself")
        call = _Call()

        async def run() -> None:
            _CALL.set(call)
            try:
                with call.scope:
                    call.end(await work(), None)
                    return
                call.end(None, _Ended("the call was cancelled"))
            except trio.Cancelled:
                call.end(None, _Ended("the loop has ended"))
                raise
            except BaseException as problem:
                call.end(None, problem)

        try:
            self._token.run_sync_soon(self.nursery.start_soon, run)
            value: T = call.wait()
        except trio.RunFinishedError:
            raise RuntimeError("the interpreter ends: the client has ended before") from None
        except KeyboardInterrupt:
            self._token.run_sync_soon(call.scope.cancel)
            raise
        return value

    def end(self) -> None:
        """Closes what is open, the last first, and waits for the thread. The first error is raised."""
        problems = []
        for block in reversed(self.open.copy()):
            try:
                self.call(block.close)
            except Exception as problem:
                problems.append(problem)
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stop.set)
        self._thread.join()
        if problems:
            raise problems[0]


_lock = threading.Lock()
_loop: Loop | None = None


def loop() -> Loop:
    """The one loop of this process."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = Loop()
        return _loop


def _forget() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


def _end() -> None:
    if _loop is not None and _loop.pid == os.getpid():
        _loop.end()


os.register_at_fork(after_in_child=_forget)
atexit.register(_end)


class _Block:
    """The `async with` of an object, in a task of its own. Its methods are for the loop."""

    def __init__(self, inner: Any, *, ends_with_loop: bool) -> None:
        self._inner = inner
        self._loop = loop()
        self._ends_with_loop = ends_with_loop
        self._lock = trio.Lock()
        self._opened = trio.Event()
        self._closing = trio.Event()
        self._left = trio.Event()
        self._reason: BaseException | None = None
        self._problem: BaseException | None = None
        self._call: _Call | None = None
        self.is_open = False
        self.value: Any = None
        """What `as` gives."""

    async def open(self) -> None:
        async with self._lock:
            if self._left.is_set():
                raise RuntimeError("it is closed")
            if not self.is_open:
                self._loop.nursery.start_soon(self._hold)
                await self._opened.wait()
                if self._problem is not None:
                    raise self._problem
                self.is_open = True
                if self._ends_with_loop:
                    self._loop.open.append(self)

    async def close(self, reason: BaseException | None = None) -> None:
        """Leaves the block, with the exception with which `with` was left. What is called back meanwhile may still use
        the object.
        """
        if not self.is_open or self._closing.is_set():
            if not self.is_open:
                self._left.set()  # nobody enters it any more
            await self._left.wait()
            return
        if self._ends_with_loop:
            self._loop.open.remove(self)
        self._reason = reason
        self._call = _CALL.get()
        self._closing.set()
        await self._left.wait()
        self.is_open = False
        if self._problem is not None:
            raise self._problem

    async def _hold(self) -> None:
        try:
            async with self._inner as self.value:
                self._opened.set()
                await self._closing.wait()
                _CALL.set(self._call)
                if self._reason is not None:
                    raise self._reason
        except trio.Cancelled:
            raise
        except BaseException as problem:
            if problem is not self._reason:
                self._problem = problem
        finally:
            self._opened.set()
            self._left.set()


FACADES: dict[type, type[Facade]] = {}


class Facade:
    """A blocking object over one of trio's."""

    _of: ClassVar[type]
    _opens_at_once: ClassVar[bool] = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        async def make() -> Any:
            return self._of(*map(_inward, arguments), **{name: _inward(value) for name, value in options.items()})

        self._loop = loop()
        self._hold(self._loop.call(make))

    def _hold(self, inner: Any) -> None:
        self._inner = inner
        self._block: _Block | None = None
        if hasattr(inner, "__aenter__"):
            # All facades of one object have one block.
            if (block := getattr(inner, "_block_of_facade", None)) is None:
                block = inner._block_of_facade = _Block(inner, ends_with_loop=True)
            self._block = block
            if self._opens_at_once and not block.is_open:
                self._loop.call(block.open)

    async def _opened(self) -> Any:
        if self._block is not None and not self._block.is_open:
            await self._block.open()
        return self._inner

    def __enter__(self) -> Self:
        self._loop.call(self._opened)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (block := self._block) is not None:
            self._loop.call(lambda: block.close(problem))

    def close(self) -> None:
        """As the end of a `with` block. A second time it does nothing."""
        self.__exit__(None, None, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _outward(getattr(self._inner, name))


def is_wrapped(name: str) -> bool:
    """Whether a blocking class has a method of this name."""
    return not name.startswith("_") and name not in LEFT_OUT


def facade(of: type[Any], *, opens_at_once: bool = False) -> type[Facade]:
    """The blocking class of one of trio's. Its public methods are those that this one has. `opens_at_once` is for what
    others use from within the loop, where nobody opens it.
    """
    members: dict[str, Any] = {
        "_of": of,
        "_opens_at_once": opens_at_once,
        "__doc__": of.__doc__,
        "__module__": "ottla.client.sync",
    }
    for name in dir(of):
        method = inspect.getattr_static(of, name)
        if is_wrapped(name) and isinstance(method, FunctionType):
            members[name] = _method(name, method)
    if hasattr(of, "__aiter__"):
        members["__iter__"] = _method("__aiter__", of.__aiter__)
    bases = tuple(FACADES[base] for base in of.__bases__ if base in FACADES)
    made = type(of.__name__, bases or (Facade,), members)
    FACADES[of] = made
    return made


def _method(name: str, method: Any) -> Any:
    is_coroutine = inspect.iscoroutinefunction(method)
    is_block = inspect.isasyncgenfunction(inspect.unwrap(method)) and not inspect.isasyncgenfunction(method)

    @functools.wraps(method)
    def call(self: Facade, /, *arguments: Any, **options: Any) -> Any:
        arguments = tuple(map(_inward, arguments))
        options = {key: _inward(value) for key, value in options.items()}

        async def run() -> Any:
            found = getattr(await self._opened(), name)(*arguments, **options)
            return await found if is_coroutine else found

        found = self._loop.call(run)
        return _within(self._loop, found) if is_block else _outward(found, self._loop)

    return call


@contextmanager
def _within(loop: Loop, inner: Any) -> Iterator[Any]:
    block = _Block(inner, ends_with_loop=False)  # nobody commits a transaction that was left in the middle
    loop.call(block.open)
    try:
        yield _outward(block.value, loop)
    except BaseException as problem:
        reason = problem
        loop.call(lambda: block.close(reason))
        raise
    loop.call(block.close)


def _iterated(loop: Loop, inner: AsyncIterator[Any]) -> Iterator[Any]:
    try:
        while True:
            try:
                found = loop.call(inner.__anext__)
            except StopAsyncIteration:
                return
            yield _outward(found, loop)
    finally:
        if (close := getattr(inner, "aclose", None)) is not None:
            loop.call(close)


def _outward(value: Any, own: Loop | None = None) -> Any:
    """A value that leaves the loop."""
    if (kind := FACADES.get(type(value))) is not None:
        made = kind.__new__(kind)
        made._loop = own or loop()
        made._hold(value)
        return made
    if hasattr(type(value), "__anext__"):
        return OneAtATime(_iterated(own or loop(), value), "records of a consumer")
    return value


def _inward(value: Any) -> Any:
    """An argument that goes into the loop."""
    if isinstance(value, Facade):
        return value._inner
    if isinstance(value, FunctionType | MethodType | functools.partial):
        return _callback(value)
    return _Listener(value) if listens(type(value)) else value


_LISTENS: dict[type, bool] = {}


def listens(kind: type) -> bool:
    """True if objects of this class are called back."""
    if (found := _LISTENS.get(kind)) is None:
        found = _LISTENS[kind] = any(name.startswith("on_") for name in dir(kind)) and not issubclass(kind, type)
    return found


class _Listener:
    """An object whose methods are called back."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _callback(found) if callable(found) else found


def _callback(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def called(*arguments: Any, **options: Any) -> Any:
        call = _CALL.get()
        if call is None:
            return await trio.to_thread.run_sync(lambda: function(*arguments, **options))
        over = trio.Event()
        token = trio.lowlevel.current_trio_token()
        result: list[Any] = []
        problems: list[BaseException] = []

        def run() -> None:
            try:
                result.append(function(*arguments, **options))
            except BaseException as problem:
                problems.append(problem)
            token.run_sync_soon(over.set)

        call.run(run)
        await over.wait()
        if problems:
            raise problems[0]
        return await result[0] if inspect.isawaitable(result[0]) else result[0]

    return called
