"""Errors that users can do something about, as one clear line instead of a traceback."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

import click

# What to do about errors that brokers answer without saying so.
_ADVICE = {
    "CLUSTER_AUTHORIZATION_FAILED": (
        "`ottla acl why User:NAME OPERATION cluster` says why; producers need idempotent-write"
    ),
    "CORRUPT_MESSAGE": "`ottla log verify FOLDER` finds damage in the files of the partition's leader",
    "GROUP_AUTHORIZATION_FAILED": "`ottla acl why User:NAME OPERATION group GROUP` says why",
    "INVALID_TOPIC_EXCEPTION": "a topic's name has 1 to 249 ASCII letters, digits, dots, underlines and hyphens",
    "MESSAGE_TOO_LARGE": "`ottla topic alter TOPIC --set max.message.bytes=N` admits larger ones",
    "NON_EMPTY_GROUP": "it has members: stop them first",
    "SECURITY_DISABLED": "authorizer.class.name in the brokers' files turns access rules on",
    "TOPIC_AUTHORIZATION_FAILED": "`ottla acl why User:NAME OPERATION topic TOPIC` says why",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "`ottla acl why User:NAME OPERATION transactional-id ID` says why",
}
_COLLIDES = "a dot and an underline are the same in the names of metrics: choose a name that differs otherwise"
_IN_USE = re.compile(r"(.+) is in use by another process.*")
#: As Python says it.
_NO_THREAD = "can't start new thread"
_THREADS = "the system gives no more threads: look at its limits (ulimit -u, and pids.max of the container)"
# What is wrong where brokers answer nothing but the error's name.
_MEANING = {"UNKNOWN_TOPIC_OR_PARTITION": "it does not exist; `ottla topic list` shows the topics that do"}


@contextmanager
def explained(doing: str | Callable[[], str], *expected: type[Exception]) -> Iterator[None]:
    """Turns errors of settings, of the broker, of files and of the network inside the block into `doing: why`, and so
    requests that the broker does not have, or that cannot hold what the user wrote.

    doing: what was tried, e.g. "cannot start the broker"; a function is asked when the error is there. Other errors are
    our own mistakes and keep their traceback, unless they are `expected` here.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        # Concurrent work wraps even a single error, and many tasks may meet the same one.
        told = [_explanation(doing() if callable(doing) else doing, each, expected) for each in _of(group)]
        if None in told:
            raise
        raise next(each for each in told if each is not None) from None
    except Exception as error:
        explanation = _explanation(doing() if callable(doing) else doing, error, expected)
        if explanation is None:
            raise
        raise explanation from None


async def each_of(names: Iterable[str], doing: str, work: Callable[[str], Awaitable[object]]) -> None:
    """Runs `work` for each name, also if one fails. Then raises one error with a line for each that did.

    doing: what is said before a name, e.g. "cannot delete topic".
    """
    problems = []
    for name in names:
        try:
            with explained(f"{doing} {name!r}"):
                await work(name)
        except click.ClickException as problem:
            problems.append(problem.message)
    if problems:
        raise click.ClickException("\n".join(problems))


def without(missing: ModuleNotFoundError) -> str:
    """What to say where a package of the extra `pipelines` is not there."""
    from ottla.extras import lacking

    return lacking(missing.name, "pipelines")


def words(error: Exception) -> str:
    """An error of the cluster within a sentence: with its name where the broker said nothing but what it is about."""
    from ottla.errors import KafkaError, NetworkException

    text = on_one_line(str(error))
    if not isinstance(error, KafkaError) or isinstance(error, NetworkException):
        return text
    meaning = _MEANING.get(error.name, "").partition(";")[0]
    about = f"{text}: {meaning}" if text and meaning and re.fullmatch(r"(?:topic )?'?[^' ]+'?", text) else text
    return f"{about or meaning} ({error.name})".lstrip()


def _without_repetition(doing: str, why: str) -> str:
    """Clients say which topic or group an error is about, and Kafka which name is illegal; where `doing` has said it,
    that is enough.
    """
    found = re.match(r"(?:topic|group|transactional id) '([^']*)'(: |$)", why)
    return why[found.end() :] if found and found[1] in doing else why


def on_one_line(text: str) -> str:
    """What a terminal would not show as it is, such as the end of a line in a name, as escapes."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _of(error: BaseException) -> list[BaseException]:
    """The errors inside a group, brokers' own words first."""
    from ottla.errors import KafkaError

    if not isinstance(error, BaseExceptionGroup):
        return [error]
    found = [each for part in error.exceptions for each in _of(part)]
    return sorted(found, key=lambda each: not isinstance(each, KafkaError))


def _explanation(
    doing: str, error: BaseException, expected: tuple[type[Exception], ...]
) -> click.ClickException | None:
    """What to tell the user; None for what is not his to repair."""
    from ottla.config.values import ConfigError
    from ottla.errors import KafkaError, ProtocolError

    doing = on_one_line(doing)
    if isinstance(error, (ConfigError, ProtocolError)):
        return click.ClickException(f"{doing}: {on_one_line(str(error))}")
    if isinstance(error, expected):  # our own words, which may have several lines, such as the end of a log
        return click.ClickException(f"{doing}: " + "\n".join(map(on_one_line, str(error).splitlines())))
    if isinstance(error, UnicodeEncodeError):  # arguments may be any bytes
        return click.ClickException(f"{doing}: {error.object!r} is not UTF-8")
    if isinstance(error, KafkaError):
        why = _without_repetition(doing, on_one_line(str(error)))
        if error.name == "INVALID_TOPIC_EXCEPTION" and re.match("Topic name .*is illegal, ", why):
            why = ""  # the advice says it better, without the name
        why = (why or _MEANING.get(error.name, "")).removesuffix(".")
        if found := _IN_USE.fullmatch(why):
            return click.ClickException(f"{doing}: {found[1]} is in use by another process: does a broker run on it?")
        if "collides with existing topics" in why:
            why = f"{why}; {_COLLIDES}"
        elif "socket.request.max.bytes" not in why and (advice := _ADVICE.get(error.name)):
            why = f"{why}; {advice}" if why else advice
        return click.ClickException(f"{doing}: {why} ({error.name})" if why else f"{doing}: {error.name}")
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return click.ClickException(f"{doing}: {_THREADS}")
    # A broken pipe is that nobody reads our output any more: click ends quietly.
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        name = f" {error.filename}:" if error.filename else ""
        return click.ClickException(on_one_line(f"{doing}:{name} {error.strerror or error}"))
    return None
