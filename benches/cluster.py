"""Three brokers and replication beside Apache Kafka with ZooKeeper: `python benches/cluster.py [OPTIONS]`.

The scenarios `cluster*` of benches/compare.py, with its options, beside the last Kafka that knows ZooKeeper; without
`--only` it is `cluster` alone, with `--full` all of them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches.suite.command import main  # noqa: E402
from benches.suite.scenarios import cluster, controller, failover  # noqa: E402

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not any(argument.startswith("--only") for argument in arguments):
        families = (cluster, failover, controller) if "--full" in arguments else (cluster,)
        arguments += ["--only", ",".join(one.name for family in families for one in family.SCENARIOS)]
    main(["--against", "3.9.2", *arguments])
