"""What may be the name of a topic (Kafka's `Topic.java`)."""

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


def collisions(topic: str, others: Iterable[str]) -> list[str]:
    """The topics whose metrics would have the same name, in which `.` and `_` are one character."""
    if "." not in topic and "_" not in topic:
        return []
    flat = topic.replace(".", "_")
    return sorted(other for other in others if other != topic and other.replace(".", "_") == flat)
