"""Waiting for a thread in whatever loop the caller runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sniffio
import trio

T = TypeVar("T")


async def in_thread(work: Callable[[], T], otherwise: Callable[[], object] | None = None) -> T:
    """Runs `work` in a thread, and waits for its end also if it is cancelled meanwhile; then `otherwise` is run, which
    undoes it.
    """
    if sniffio.current_async_library() == "trio":
        with trio.CancelScope(shield=True):
            result = await trio.to_thread.run_sync(work)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            if otherwise is not None:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(otherwise)
            raise
        return result
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if otherwise is not None and task.exception() is None:
            await asyncio.to_thread(otherwise)
        raise
