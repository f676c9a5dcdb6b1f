"""The watches of the embedded tree: who is to be told when a node or its children change."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordination.tree import EventKind, Watch, WatchEvent

_OF_NODE = tuple(kind for kind in EventKind if kind is not EventKind.CHILDREN)
_OF_CHILDREN = (EventKind.CHILDREN, EventKind.DELETED)


class Fired(NamedTuple):
    """A watch of a session's that is to be called."""

    session_id: int
    watch: Watch
    event: WatchEvent


class Watches:
    """Who waits for what. Touched only by the store's thread, so arming is atomic with the read."""

    def __init__(self) -> None:
        self._armed: dict[tuple[bool, str], dict[tuple[int, Watch], None]] = {}
        #: Those that fired for changes that are not committed yet.
        self._fired: list[tuple[tuple[bool, str], dict[tuple[int, Watch], None]]] = []

    def arm(self, path: str, session_id: int, watch: Watch, *, children: bool) -> None:
        self._armed.setdefault((children, path), {})[session_id, watch] = None

    def disarm(self, path: str, session_id: int, watch: Watch, *, children: bool) -> None:
        """Forgets a watch that is armed."""
        armed = self._armed[children, path]
        del armed[session_id, watch]
        if not armed:
            del self._armed[children, path]

    def fired(self, event: WatchEvent) -> list[Fired]:
        """Those to call for this event; they are no longer armed."""
        found: list[tuple[int, Watch]] = []
        for children, kinds in ((False, _OF_NODE), (True, _OF_CHILDREN)):
            if event.kind in kinds and (armed := self._armed.pop((children, event.path), None)):
                self._fired.append(((children, event.path), armed))
                found += armed
        return [Fired(session_id, watch, event) for session_id, watch in found]

    def committed(self) -> None:
        """Forgets the watches that have fired: their changes are committed, so they stay disarmed."""
        self._fired.clear()

    def rolled_back(self) -> None:
        """Arms the watches that fired since the last commit as before: the changes were none."""
        for key, armed in self._fired:
            self._armed.setdefault(key, {}).update(armed)
        self._fired.clear()

    def drop_session(self, session_id: int) -> list[Fired]:
        """Disarm all of a session's; returns what each is to be told."""
        lost = []
        for (children, path), armed in list(self._armed.items()):
            for owner in [owner for owner in armed if owner[0] == session_id]:
                del armed[owner]
                lost.append(Fired(*owner, WatchEvent(EventKind.LOST, path)))
            if not armed:
                del self._armed[children, path]
        return lost
