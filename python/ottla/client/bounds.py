"""Arguments that have a least value."""


def at_least(least: float, **given: float) -> None:
    """Raises ValueError for the first argument, by its name, that is below `least`."""
    for name, value in given.items():
        if value < least:
            raise ValueError(f"{name}={value}: it may be {least} or more")
