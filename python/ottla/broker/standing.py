"""Whether others may lead what this broker leads, without its having heard.

A broker that does not hear the coordination tree goes on: the tree may be away, and then nobody elects. But its session
may have ended for all others, or a neighbour may have taken it for dead and a controller removed its registration. What
such a broker says of its own memory, without a write that others confirm, may be long untrue.

| this broker                                                 | may have been replaced  |
|-------------------------------------------------------------|-------------------------|
| does not hear the tree                                      | yes                     |
| hears it again, and has not looked at its registration yet  | yes                     |
| has another session, in which it is not registered yet      | yes                     |
| is registered anew, and the controller has told nothing yet | yes                     |
| was told by a controller what it leads since it registered  | no                      |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordination.tree import SessionState

if TYPE_CHECKING:
    from ottla.controller.registration import Registration
    from ottla.coordination.tree import Tree


class Standing:
    """What this broker knows of its own place among the others."""

    def __init__(self, tree: Tree, registration: Registration) -> None:
        self._tree = tree
        self._registration = registration
        self._told = -1

    def told(self, broker_epoch: int) -> None:
        """A LeaderAndIsr for the registration with this epoch was carried out; -1 from controllers that name none."""
        self._told = max(self._told, self._registration.epoch if broker_epoch < 0 else broker_epoch)

    def may_be_replaced(self) -> bool:
        """Whether others may lead what this broker leads, as the table has it."""
        registration = self._registration
        is_heard = self._tree.state is SessionState.CONNECTED and registration.is_seen
        return not is_heard or self._told < registration.epoch
