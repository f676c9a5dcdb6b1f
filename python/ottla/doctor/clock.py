"""The brokers' clocks, against the one here.

No answer of Kafka's protocol tells the time, so a record must be written: to a topic of the doctor's own with a
partition on each broker and timestamps of the broker (LogAppendTime), deleted at the end. Only with the user's leave.
"""

from __future__ import annotations

import secrets
import time

import trio

from ottla._core import BatchBuilder
from ottla.doctor.brokers import Cluster, Refused, named
from ottla.doctor.findings import Report
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest

#: Beyond this records seem to come from the past or the future: retention and joins by time go wrong.
OFF_MS_MAX = 2000
#: How long a new topic may take to be known to its leaders.
TRIES, REST_S = 50, 0.1
TIMEOUT_MS = 10_000


async def check_clock(report: Report, cluster: Cluster, *, may_write: bool) -> None:
    """Raises OSError, Refused."""
    if not may_write:
        report.skipped(
            "clock", "no answer of a broker tells its time", "--write: one record in a topic of the doctor's own"
        )
        return
    topic = f"ottla-doctor-{secrets.token_hex(6)}"
    brokers = sorted(cluster.connections)
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[broker]) for index, broker in enumerate(brokers)
    ]
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=[
            CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime"),
            CreatableTopicConfig(name="min.insync.replicas", value="1"),
        ],
    )
    made = await cluster.ask_controller(CREATE_TOPICS, CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
    if made.topics[0].error_code:
        raise Refused(f"a topic for it cannot be made: {named(made.topics[0].error_code)}")
    try:
        for index, broker in enumerate(brokers):
            off_ms, accuracy_ms = await _off_ms(cluster, topic, index, broker)
            side = "ahead" if off_ms > 0 else "behind"
            found = f"broker {broker} is {abs(off_ms):.0f} ms {side} (± {accuracy_ms:.0f} ms)"
            if abs(off_ms) - accuracy_ms > OFF_MS_MAX:
                report.warning("clock", found, "let both machines keep time by NTP (chrony, systemd-timesyncd)")
            else:
                report.ok("clock", found)
    finally:
        with trio.move_on_after(cluster.timeout_s, shield=True):
            await cluster.ask_controller(DELETE_TOPICS, DeleteTopicsRequest(topic_names=[topic], timeout_ms=TIMEOUT_MS))


async def _off_ms(cluster: Cluster, topic: str, index: int, broker: int) -> tuple[float, float]:
    """How far a broker's clock is ahead, and within which bounds that is known."""
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, b"what time is it?")
    data = PartitionProduceData(partition_index=index, records=builder.finish())
    request = ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=TIMEOUT_MS, topics=[TopicProduceData(name=topic, partitions=[data])]
    )
    code = 0
    for _ in range(TRIES):
        sent = time.time() * 1000
        answer = await cluster.ask(broker, PRODUCE, request)
        received = time.time() * 1000
        row = answer.responses[0].partitions[0]
        code = row.error_code
        if not code:
            return row.log_append_time_ms - (sent + received) / 2, (received - sent) / 2 + 1
        await trio.sleep(REST_S)
    raise Refused(f"broker {broker} does not take a record: {named(code)}")
