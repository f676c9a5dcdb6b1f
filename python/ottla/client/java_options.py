"""Java's properties in the variable `KAFKA_OPTS` of Kafka's scripts, such as
`-Djava.security.auth.login.config=FILE`, and the JAAS file that this one names.
"""

from __future__ import annotations

import os
import shlex
from typing import Final, NamedTuple

from ottla.client import jaas

VARIABLE: Final = "KAFKA_OPTS"
LOGIN_FILE: Final = "java.security.auth.login.config"


class JaasFile(NamedTuple):
    """The login modules of each entry, and the file in words, for messages."""

    place: str
    entries: dict[str, list[tuple[str, dict[str, str]]]]


def properties() -> dict[str, str]:
    """Java's properties by name; the last of a name holds. Empty where the variable ends within quotes."""
    try:
        words = shlex.split(os.environ.get(VARIABLE, ""))
    except ValueError:
        return {}
    given = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in given}


def jaas_file() -> JaasFile | None:
    """The JAAS file that Java would be given; None if it is given none. Java takes `=FILE` for FILE alone, and `file:`.

    Raises:
        ValueError: it cannot be read, or is none; nothing of its text is in the message but names.
    """
    path = properties().get(LOGIN_FILE, "").removeprefix("=").removeprefix("file:")
    if not path:
        return None
    place = f"the JAAS file {path} ({VARIABLE})"
    try:
        with open(path, encoding="utf-8") as file:
            return JaasFile(place, jaas.parse_file(file.read()))
    except OSError as error:
        raise ValueError(f"{place} cannot be read: {error.strerror}") from None
    except ValueError as error:  # bytes that are no text, too
        raise ValueError(f"{place}: {error}") from None
