"""NAME=VALUE options."""

from __future__ import annotations

from collections.abc import Iterable

import click


def assignments(settings: Iterable[str], option: str = "--set") -> dict[str, str]:
    """NAME=VALUE options as a dictionary. Raises click.BadParameter for one without `=`."""
    result = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint=option)
        result[name.strip()] = value
    return result
