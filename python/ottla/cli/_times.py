"""Times as people write them."""

from __future__ import annotations

import click

from ottla.cli._settings import INT64_MAX


class Time(click.ParamType[int]):
    """ISO 8601, or milliseconds since 1970; without a zone it is the local one. The value is in milliseconds."""

    name = "time"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        """Milliseconds since 1970."""
        if isinstance(value, int):
            return value
        text = str(value)
        if text.isdecimal() and int(text) <= INT64_MAX:
            return int(text)
        from datetime import datetime

        try:
            return round(datetime.fromisoformat(text).timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is no time such as 2026-03-01T12:00, 2026-03-01T12:00+01:00 or 1772362800000",
                parameter,
                context,
            )
