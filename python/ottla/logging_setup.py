"""The form of all of Ottla's log lines: one form for machines, no secrets, and bounds that hold whatever clients send.

Lines go through `logging`, as everywhere in Python; a call names what it is about in `extra` (topic, partition,
client_id, connection, ...), and the JSON form has these as fields of their own.

Much of what stands in a line was sent by clients: client ids, group ids, names of topics, reasons. So each value is
cut (`VALUE_MAX`), control characters are written as escapes in the text form, and a line is cut too (`LINE_MAX`). Of
each kind of line only so many are written in a time; the others are counted, and the next line of the kind says how
many they were (`Bounded`).
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Hashable
from datetime import UTC, datetime
from typing import Final

HIDDEN: Final = "[hidden]"

#: Characters of one value; a valid topic name has at most 249.
VALUE_MAX: Final = 300
#: Characters of a message.
LINE_MAX: Final = 8 * 1024
#: Characters of a traceback. Its end is kept.
TRACEBACK_MAX: Final = 16 * 1024
#: So many secrets are known, or all of those that are in the settings at once.
SECRETS_MAX = 1_000
#: Shorter secrets are not looked for: replacing each `e` or `1` would make all lines unreadable.
SECRET_MIN: Final = 6

#: The attributes that every LogRecord has; anything else was given as `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: Control characters, ends of lines, and what changes the direction of text.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Secrets:
    """Texts that get into no line."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._forms: list[str] = []
        #: The newest last.
        self._known: dict[str, None] = {}
        self.hide(secrets)

    def hide(self, secrets: Collection[str]) -> None:
        """These too, from now on. Those before are not forgotten, since an old password may still be in use somewhere,
        until so many came after them: each line is searched for all.
        """
        new = {secret: None for secret in secrets if len(secret) >= SECRET_MIN}
        known = {secret: None for secret in self._known if secret not in new} | new
        kept = max(SECRETS_MAX, len(new))
        self._known = dict.fromkeys(list(known)[-kept:])
        forms = {form for secret in self._known for form in (secret, repr(secret)[1:-1])}
        # A longer one first: it may contain another.
        self._forms = sorted(forms, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


class _Value:
    """A value of a line: its text without secrets, and cut."""

    __slots__ = ("_secrets", "_value")

    def __init__(self, value: object, secrets: Secrets) -> None:
        self._value = value
        self._secrets = secrets

    def __str__(self) -> str:
        return _cut(self._secrets(str(self._value)), VALUE_MAX)

    def __repr__(self) -> str:
        value = self._value
        # Cut first: what is escaped after the cut cannot be torn.
        return repr(str(self)) if isinstance(value, str) else _cut(self._secrets(repr(value)), VALUE_MAX)


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else f"{text[:length_max]}... ({len(text):,} characters)"


def _escaped(text: str) -> str:
    """The text on one line, with control characters as Python writes them."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


class Formatter(logging.Formatter):
    """The base of both forms: values without secrets, and cut.

    Only values are searched for secrets, not the words around them: a client who can set a password must not be able to
    take words out of the broker's lines.
    """

    def __init__(self, secrets: Secrets | None = None) -> None:
        super().__init__()
        self.secrets = secrets or Secrets()

    def message(self, record: logging.LogRecord) -> str:
        if isinstance(record.args, tuple) and record.args:
            text = str(record.msg) % tuple(map(self._value, record.args))
        else:
            text = self.secrets(record.getMessage())
        if unsaid := getattr(record, "more_like_this", 0):
            text += f" (and {unsaid:,} more like this)"
        return _cut(text, LINE_MAX)

    def _value(self, value: object) -> object:
        return value if isinstance(value, int | float | None) else _Value(value, self.secrets)

    def traceback(self, record: logging.LogRecord) -> str:
        if not record.exc_info:
            return ""
        text = self.secrets(self.formatException(record.exc_info))
        return text if len(text) <= TRACEBACK_MAX else f"... {text[-TRACEBACK_MAX:]}"

    @staticmethod
    def moment(record: logging.LogRecord) -> str:
        """When it was said: RFC 3339, UTC."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(Formatter):
    """A line for people. A traceback follows on lines of its own, which begin with two blanks."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [f"{self.moment(record)} {record.levelname} {record.name}: {_escaped(self.message(record))}"]
        lines += [f"  {_escaped(line)}" for line in self.traceback(record).split("\n") if line]
        return "\n".join(lines)


class JsonFormatter(Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, the fields of `extra`, and where there is
    one `exception` with its traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self.message(record),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in line:
                line[name] = self._value(value)
        if exception := self.traceback(record):
            line["exception"] = exception
        return json.dumps(line, default=str, ensure_ascii=False)


class Bounded(logging.Filter):
    """Lets `burst` lines of a kind pass, then one in `every_s` seconds. The others are counted for the next one.

    A kind is a logger and the words of a call in the code, which no client decides. Lines without values may have been
    put together before the call; those of one logger and level are one kind. At DEBUG much is wanted, so ten times as
    many lines pass.
    """

    def __init__(
        self,
        *,
        burst: int = 100,
        every_s: float = 1.0,
        kinds_max: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._burst = burst
        self._every_s = every_s
        self._kinds_max = kinds_max
        self._clock = clock
        #: kind to (how many may pass at once, when that was so, how many did not pass since one passed)
        self._kinds: dict[Hashable, tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind: Hashable = (record.name, record.msg if record.args and isinstance(record.msg, str) else record.levelno)
        if kind not in self._kinds and len(self._kinds) >= self._kinds_max:
            kind = None
        factor = 10 if record.levelno <= logging.DEBUG else 1
        burst, every_s = self._burst * factor, self._every_s / factor
        now = self._clock()
        left, since, unsaid = self._kinds.get(kind, (burst, now, 0))
        left = min(burst, left + (now - since) / every_s)
        if left < 1:
            self._kinds[kind] = (left, now, unsaid + 1)
            return False
        self._kinds[kind] = (left - 1, now, 0)
        if unsaid:
            record.more_like_this = unsaid
        return True


def to_stderr(level: str, form: str, secrets: Collection[str] = ()) -> None:
    """Sends the process's log lines to stderr, in the form "text" or "json". Nothing of `secrets` gets into them."""
    handler = logging.StreamHandler()
    handler.setFormatter((JsonFormatter if form == "json" else TextFormatter)(Secrets(secrets)))
    handler.addFilter(Bounded())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)


def hide(secrets: Collection[str]) -> None:
    """Nothing of these gets into the process's log lines from now on, where `to_stderr` set them up."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, Formatter):
            handler.formatter.secrets.hide(secrets)


def always(logger: logging.Logger, message: str, *args: object, extra: dict[str, object] | None = None) -> None:
    """Says something at WARNING whatever the levels are, for what everybody who reads the log has to know."""
    made = logger.makeRecord(logger.name, logging.WARNING, "", 0, message, args, None, extra=extra)
    logger.handle(made)


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
        #: Hash of a reason to (when it was last said, how often it was not said since). The hash, since a reason has
        #: what clients send in it.
        self._said: dict[int, tuple[float, int]] = {}

    def log(
        self, level: int, reason: Hashable, message: str, *args: object, extra: dict[str, object] | None = None
    ) -> None:
        now = self._clock()
        key = hash(reason)
        last = self._said.pop(key, None)
        if last is not None and now - last[0] < self._every_s:
            self._said[key] = (last[0], last[1] + 1)
            return
        if len(self._said) >= self._reasons_max:
            del self._said[next(iter(self._said))]
        self._said[key] = (now, 0)
        if last is not None and last[1]:
            message += " (and %d times more since this was last said, %.0f s ago)"
            args = (*args, last[1], now - last[0])
            extra = {**(extra or {}), "suppressed": last[1]}
        self._logger.log(level, message, *args, extra=extra)
