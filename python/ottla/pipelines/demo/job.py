"""The Spark job: one pass over the topic, parsed and counted by Spark's own functions."""

from typing import TYPE_CHECKING

from ottla.pipelines.demo.summary import Hour, Page, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# address identity user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 ...
REQUEST = r'^\S+ [^\[]*\[(\d{2}/\w{3}/\d{4}:\d{2})[^\]]*\][^"]*"\S+ ([^ "?]+)[^"]*" (\d{3})\b'


def counted(records: "DataFrame") -> "DataFrame":
    """One row per hour and page with `requests` and `errors`; an hour of "" counts the lines that are no requests."""
    from pyspark.sql import functions as f

    line = f.col("value").cast("string")
    part = {name: f.regexp_extract(line, REQUEST, group) for group, name in ((1, "hour"), (2, "page"), (3, "status"))}
    return (
        records.select(*[column.alias(name) for name, column in part.items()])
        .groupBy("hour", "page")
        .agg(
            f.count(f.lit(1)).alias("requests"),
            f.count(f.when(f.col("status") >= "400", 1)).alias("errors"),
        )
    )


def run(records: "DataFrame", pages_max: int = 10) -> Summary:
    """Counts the records' values, which are lines of an access log."""
    from pyspark.sql import functions as f

    table = counted(records).cache()
    try:
        totals = (f.sum("requests").alias("requests"), f.sum("errors").alias("errors"))
        hours = table.groupBy("hour").agg(*totals).collect()
        pages = (
            table.where("hour != ''")
            .groupBy("page")
            .agg(totals[0])
            .orderBy(f.desc("requests"), "page")
            .limit(pages_max)
            .collect()
        )
    finally:
        table.unpersist()
    return Summary(
        hours=tuple(sorted(Hour.parse(row["hour"], row["requests"], row["errors"]) for row in hours if row["hour"])),
        pages=tuple(Page(row["page"], row["requests"]) for row in pages),
        malformed=sum(row["requests"] for row in hours if not row["hour"]),
    )
