"""One member of a mixed group, of confluent-kafka; what it says is described in test_mixed_groups.py."""

import sys
import threading
from typing import Any

import confluent_kafka as ck

#: Nothing was read; or a rebalance goes on, and a later commit has these offsets, that of the callback at the latest.
MAY_BE = (ck.KafkaError._NO_OFFSET, ck.KafkaError.REBALANCE_IN_PROGRESS, ck.KafkaError.ILLEGAL_GENERATION)


def main(bootstrap: str, topic: str, group: str, assignor: str) -> None:
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ends.set()), daemon=True).start()
    member = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 100,
            "fetch.wait.max.ms": 20,
            "retry.backoff.ms": 20,
        }
    )

    def commit(*_: Any) -> None:
        try:
            member.commit(asynchronous=False)
        except ck.KafkaException as problem:
            if problem.args[0].code() not in MAY_BE:
                raise

    member.subscribe([topic], on_revoke=commit)
    said: list[int] = []
    while not ends.is_set():
        messages = member.consume(1_000, 0.05)
        read = [int(message.value()) for message in messages if message.error() is None]
        if read:
            print("read\t" + ",".join(map(str, read)), flush=True)
            commit()
        has = sorted(place.partition for place in member.assignment())
        if has != said:
            said = has
            print("has\t" + ",".join(map(str, has)), flush=True)
    commit()
    member.close()
    print("left", flush=True)


main(*sys.argv[1:])
