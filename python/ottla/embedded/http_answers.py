"""Errors of the HTTP interface: the status that each has, and its text."""

from __future__ import annotations

from http import HTTPStatus

from ottla.errors import KafkaError, UnknownTopicOrPartition


class Told(Exception):
    """An answer other than success."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def told(error: Exception) -> Told | None:
    """The answer for an error that says something to the one who asked; None for a mistake of ours."""
    if isinstance(error, Told):
        return error
    if isinstance(error, UnknownTopicOrPartition):
        return Told(HTTPStatus.NOT_FOUND, str(error))
    if isinstance(error, TimeoutError):
        return Told(HTTPStatus.GATEWAY_TIMEOUT, str(error))
    if isinstance(error, ValueError):
        return Told(HTTPStatus.BAD_REQUEST, str(error))
    # A broker that does not run, or runs already, has failed, or whose cluster refuses.
    if isinstance(error, RuntimeError | KafkaError | OSError):
        return Told(HTTPStatus.CONFLICT, str(error) or type(error).__name__)
    return None
