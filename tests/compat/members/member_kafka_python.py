"""One member of a mixed group, of kafka-python; what it says is described in test_mixed_groups.py."""

import sys
import threading

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def main(bootstrap: str, topic: str, group: str, assignor: str) -> None:
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ends.set()), daemon=True).start()
    member = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=[ASSIGNORS[assignor]],
        # Its threads give partitions back whenever they like, and commit before.
        enable_auto_commit=True,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=100,
        fetch_max_wait_ms=20,
        retry_backoff_ms=20,
    )

    member.subscribe([topic])
    said: list[int] = []
    while not ends.is_set():
        found = member.poll(50, max_records=10_000)
        read = [int(message.value) for messages in found.values() for message in messages]
        if read:
            print("read\t" + ",".join(map(str, read)), flush=True)
        has = sorted(place.partition for place in member.assignment())
        if has != said:
            said = has
            print("has\t" + ",".join(map(str, has)), flush=True)
    member.close()
    print("left", flush=True)


main(*sys.argv[1:])
