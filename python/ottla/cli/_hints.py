"""What `make run` says when the broker serves: how to produce and consume, in one screen."""

HINTS = """\
A broker is serving at {address}; its data is in {directory}. Ctrl-C stops it.
In another terminal of this folder:

  ottla                      .venv/bin/ottla topic create greetings --partitions 3
                             echo hello | .venv/bin/ottla produce greetings
                             .venv/bin/ottla consume greetings --from-beginning --until-end

  kcat                       echo hello | kcat -b {address} -t greetings -P
                             kcat -b {address} -t greetings -C -e

  Python, any Kafka client   from confluent_kafka import Producer
                             producer = Producer({{"bootstrap.servers": "{address}"}})
                             producer.produce("greetings", key="to you", value="hello")
                             producer.flush()

  Spark                      from ottla.spark import session
                             session().read.format("ottla").option("subscribe", "greetings") \\
                                 .option("kafka.bootstrap.servers", "{address}").load().show()

Everything it can be told: .venv/bin/ottla serve --help, docs/settings.md. A real workload with a picture: make demo
"""


def hints(address: str, directory: str) -> str:
    """The text for a broker that listens at HOST:PORT and keeps its data in a directory."""
    return HINTS.format(address=address, directory=directory)
