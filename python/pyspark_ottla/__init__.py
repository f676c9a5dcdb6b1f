"""Makes `spark.read.format("ottla")` known to Spark without registration.

Spark imports every top-level module whose name starts with `pyspark_` and takes its `DefaultSource`. A module that
raises while it is imported switches off all such sources, other people's too, so nothing here may raise, whatever is
missing or broken: what a read needs (pyarrow, the native module) is imported when it is used, and then the error
names it.
"""

__all__: list[str] = []

try:
    from ottla.spark.source import OttlaDataSource as DefaultSource

    __all__ += ["DefaultSource"]
except Exception:  # pragma: no cover - without pyspark there is nobody to tell
    pass
