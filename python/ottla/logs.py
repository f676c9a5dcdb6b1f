"""What all of Ottla's log lines have in common: one form for machines, no secrets, and nothing said over and over.

Lines go through `logging`, as everywhere in Python; a call names what it is about in `extra` (topic, partition,
client_id, connection, ...), and the JSON form has these as fields of their own.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Hashable
from datetime import UTC, datetime
from typing import Final

TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
HIDDEN: Final = "[hidden]"

#: What every LogRecord has; anything else was given as `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, the fields of `extra`, and where there is
    one `exception` with its traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class Discreet(logging.Formatter):
    """Another formatter's lines, with every one of these secrets replaced, wherever in a line it stands."""

    def __init__(self, inner: logging.Formatter, secrets: Collection[str]) -> None:
        super().__init__()
        self._inner = inner
        self._secrets: list[str] = []
        self.hide(secrets)

    def hide(self, secrets: Collection[str]) -> None:
        """These too, from now on; those before are not forgotten: an old password may still be in use somewhere."""
        forms = {form for secret in secrets for form in _forms(secret)}
        # A longer one first: it may contain another.
        self._secrets = sorted(forms.union(self._secrets), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        line = self._inner.format(record)
        for secret in self._secrets:
            line = line.replace(secret, HIDDEN)
        return line


def _forms(secret: str) -> set[str]:
    """As it is, as `%r` shows it, and as both stand in JSON."""
    shown = repr(secret)[1:-1]
    return {secret, shown} | {json.dumps(form, ensure_ascii=False)[1:-1] for form in (secret, shown)}


def to_stderr(level: str, form: str, secrets: Collection[str] = ()) -> None:
    """Sends the process's log lines to stderr, in the form "text" or "json". Nothing of `secrets` gets into them."""
    formatter = JsonFormatter() if form == "json" else logging.Formatter(TEXT)
    handler = logging.StreamHandler()
    handler.setFormatter(Discreet(formatter, secrets) if secrets else formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)


def hide(secrets: Collection[str]) -> None:
    """Nothing of these gets into the process's log lines from now on, where `to_stderr` set them up."""
    for handler in logging.getLogger().handlers if secrets else ():
        if isinstance(handler.formatter, Discreet):
            handler.formatter.hide(secrets)
        elif handler.formatter is not None:
            handler.setFormatter(Discreet(handler.formatter, secrets))


def of_partition(topic: str, index: int) -> dict[str, object]:
    """The fields of a line about a partition."""
    return {"topic": topic, "partition": index}


class Repeated:
    """Says something once and then at most every `every_s` seconds, with how often it would have been said meanwhile.

    What is the same is what has the same `reason`; of more than `reasons_max` reasons the oldest are forgotten.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        every_s: float = 60.0,
        reasons_max: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._every_s = every_s
        self._reasons_max = reasons_max
        self._clock = clock
        #: reason to (when it was last said, how often it was not said since)
        self._said: dict[Hashable, tuple[float, int]] = {}

    def log(
        self, level: int, reason: Hashable, message: str, *args: object, extra: dict[str, object] | None = None
    ) -> None:
        now = self._clock()
        last = self._said.pop(reason, None)
        if last is not None and now - last[0] < self._every_s:
            self._said[reason] = (last[0], last[1] + 1)
            return
        if len(self._said) >= self._reasons_max:
            del self._said[next(iter(self._said))]
        self._said[reason] = (now, 0)
        if last is not None and last[1]:
            message += " (and %d times more since this was last said, %.0f s ago)"
            args = (*args, last[1], now - last[0])
            extra = {**(extra or {}), "suppressed": last[1]}
        self._logger.log(level, message, *args, extra=extra)
