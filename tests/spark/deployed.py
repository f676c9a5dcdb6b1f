"""A batch and a stream in a session of another kind: `python deployed.py SERVERS FOLDER master|remote URL`."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions


def main() -> None:
    servers, place, kind, url = sys.argv[1:]
    builder = SparkSession.builder.master(url) if kind == "master" else SparkSession.builder.remote(url)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": servers, "subscribe": "deployed"}
    batch = spark.read.format("ottla").options(**options, minPartitions="8").load()
    answer = f"batch {batch.count()}"
    if kind == "master":
        executors = batch.select(functions.expr("spark_partition_id()")).distinct().count()
        assert executors == 8, executors
        answer += f" by {len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1} workers"
    stream = spark.readStream.format("ottla").options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
    writer.trigger(availableNow=True).start(f"{place}/output").awaitTermination()
    answer += f", stream {spark.read.parquet(f'{place}/output').count()}"
    Path(place, "answer").write_text(answer)
    spark.stop()


main()
