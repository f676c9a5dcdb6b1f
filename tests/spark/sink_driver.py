"""A driver of its own that writes text files to a topic, to be killed: BOOTSTRAP TOPIC FOLDER TASKS."""

import sys
from pathlib import Path

from ottla.spark import session
from tests.spark.texts import start


def main() -> None:
    bootstrap, topic, folder, tasks = sys.argv[1:]
    spark = session("killed", cores=2, memory="512m")
    start(spark, Path(folder), bootstrap, topic, tasks=int(tasks)).awaitTermination()


if __name__ == "__main__":
    main()
