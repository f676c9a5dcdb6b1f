"""Names that topics may have (Kafka's `Topic.java`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.errors import InvalidTopic

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(topic: str) -> None:
    """Raises InvalidTopic."""
    if not topic:
        raise InvalidTopic("Topic name is illegal, it can't be empty")
    if topic in (".", ".."):
        raise InvalidTopic('Topic name cannot be "." or ".."')
    if len(topic) > LENGTH_MAX:
        raise InvalidTopic(
            f"Topic name is illegal, it can't be longer than {LENGTH_MAX} characters, topic name: {topic}"
        )
    if not _LEGAL.fullmatch(topic):
        raise InvalidTopic(
            f'Topic name "{topic}" is illegal, it contains a character other than '
            "ASCII alphanumerics, '.', '_' and '-'"
        )


def may_be_name(topic: str) -> bool:
    """True if `check_name` takes it."""
    try:
        check_name(topic)
    except InvalidTopic:
        return False
    return True


def may_collide(topic: str) -> bool:
    """True if the metrics of another topic could have the same name: in those, `.` and `_` are one character."""
    return "." in topic or "_" in topic


class CollidingNames:
    """Names of topics, by the name that their metrics have."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._by_metric: dict[str, set[str]] = {}
        for name in names:
            self.add(name)

    def add(self, topic: str) -> None:
        if may_collide(topic):
            self._by_metric.setdefault(topic.replace(".", "_"), set()).add(topic)

    def colliding_with(self, topic: str) -> list[str]:
        """Those that are not `topic`, and whose metrics would have its metrics' name."""
        return sorted(self._by_metric.get(topic.replace(".", "_"), set()) - {topic})
