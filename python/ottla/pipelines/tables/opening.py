"""From the name of a format to its table. The package that a format needs is imported when it is asked for."""

from pathlib import Path

from ottla.extras import extra
from ottla.pipelines.frame.config import PipelineError
from ottla.pipelines.tables.table import Format, Table


def open_table(kind: Format, location: Path) -> Table:
    """Opens a table, or makes one.

    Raises:
        PipelineError: the package for the format is not installed, or something else is at `location`.
    """
    location.mkdir(parents=True, exist_ok=True)
    try:
        with extra("tables"):
            if kind == "delta":
                from ottla.pipelines.tables.delta import Delta

                return Delta(location)
            if kind == "iceberg":
                from ottla.pipelines.tables.iceberg import Iceberg

                return Iceberg(location)
    except ModuleNotFoundError as missing:
        raise PipelineError(f"format {kind!r}: {missing}") from None
    from ottla.pipelines.tables.manifest import Manifest

    return Manifest(location)
