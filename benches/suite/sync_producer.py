"""A producer that waits for each record: `python sync_producer.py JSON`, one run a process, over librdkafka.

Each record begins with its number. It sends until its input is closed, and then says what became of them: when each was
acknowledged or given up, by the clock of the machine. Python between the records costs some microseconds of each; for
both brokers the same.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import KafkaError, Producer

# A record that nobody answers is given up by then.
LIMIT_S = 150.0


def main() -> None:
    options = json.loads(sys.argv[1])
    producer = Producer({"bootstrap.servers": options["bootstrap"], **options["settings"]})
    stopping = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()
    acknowledged: list[tuple[int, float]] = []
    failed: list[tuple[int, float]] = []
    partitions, size = options["partitions"], options["record_bytes"]
    number = 0
    while not stopping.is_set():
        said: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Any, said: list[KafkaError | None] = said) -> None:
            said.append(error)

        value = number.to_bytes(8) + bytes(size - 8)
        producer.produce(options["topic"], value, partition=number % partitions, on_delivery=delivered)
        end = time.monotonic() + LIMIT_S
        while not said:
            producer.poll(0.1)
            if time.monotonic() > end:
                sys.exit(f"nothing was said of record {number} for {LIMIT_S:.0f} s")
        (failed if said[0] else acknowledged).append((number, time.time()))
        number += 1
    print(json.dumps({"sent": number, "acknowledged": acknowledged, "failed": failed}))


if __name__ == "__main__":
    main()
