"""The costs of encoding and decoding messages: `.venv/bin/python benches/wire.py`.

Each line is the best of many rounds in this thread (the best, because whatever disturbs only adds). The large ones are
what a broker with 5,000 partitions gets when it starts, and what its clients ask for.
"""

import platform
import time
from collections.abc import Callable

from ottla import _core
from ottla.wire import api
from ottla.wire.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.k04_leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from ottla.wire.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.k12_heartbeat import HeartbeatRequest
from ottla.wire.schema import Message

PARTITIONS = range(5_000)
REPLICAS = [1, 2, 3]


def best_us(work: Callable[[], object], rounds: int) -> float:
    """The best time of one call, in microseconds; short calls are timed in groups."""
    group = 1 if rounds < 1_000 else 100
    best = float("inf")
    for _ in range(max(rounds // group, 5)):
        start = time.perf_counter()
        for _ in range(group):
            work()
        best = min(best, (time.perf_counter() - start) / group)
    return best * 1e6


def show(name: str, key: int, side: str, version: int, message: Message, rounds: int = 30) -> None:
    found = api(key)
    encode, decode = getattr(found, f"encode_{side}"), getattr(found, f"decode_{side}")
    encoded = encode(version, message)
    took = [best_us(lambda: encode(version, message), rounds), best_us(lambda: decode(version, encoded), rounds)]
    print(f"{name:<48}{len(encoded):>9} B   encode {took[0]:>9.1f} us   decode {took[1]:>9.1f} us")


def metadata() -> MetadataResponse:
    partitions = [MetadataResponsePartition(0, index, 1, 5, REPLICAS, REPLICAS, []) for index in PARTITIONS]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "localhost", 9092)],
        topics=[MetadataResponseTopic(0, "t", False, partitions)],
    )


def leader_and_isr() -> LeaderAndIsrRequest:
    states = [LeaderAndIsrPartitionState("", index, 1, 1, 5, REPLICAS, 7, REPLICAS) for index in PARTITIONS]
    return LeaderAndIsrRequest(1, 1, 25, topic_states=[LeaderAndIsrTopicState("t", states)])


def update_metadata() -> UpdateMetadataRequest:
    states = [UpdateMetadataPartitionState("", index, 1, 1, 5, REPLICAS, 7, REPLICAS) for index in PARTITIONS]
    broker = UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(9092, "localhost", "PLAINTEXT", 0)])
    return UpdateMetadataRequest(1, 1, 25, topic_states=[UpdateMetadataTopicState("t", states)], live_brokers=[broker])


def produce_and_fetch() -> None:
    rows = [("t", index, b"records") for index in range(100)]
    produce = _core.encode_produce_request(8, None, 1, 30_000, rows)
    took = best_us(lambda: _core.encode_produce_request(8, None, 1, 30_000, rows), 2_000)
    print(f"{'Produce request 8, 100 partitions (by hand)':<48}{len(produce):>9} B   encode {took:>9.1f} us")
    body = bytes.fromhex("00000000 0000 00000000 00000001 0001 74 00000064")
    body += b"".join(index.to_bytes(4, "big") + bytes(26) + b"\xff" * 8 + b"\0\0\0\7records" for index in range(100))
    took = best_us(lambda: _core.decode_fetch_response(body, 11), 2_000)
    print(f"{'Fetch response 11, 100 partitions (by hand)':<48}{len(body):>9} B   decode {took:>34.1f} us")


def main() -> None:
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(": ")[2].strip() for line in file if line.startswith("model name")), "?")
    print(f"{model}; Python {platform.python_version()}; {'DEBUG BUILD' if _core.DEBUG_BUILD else 'release build'}")
    show("Metadata request 9, one topic", 3, "request", 9, MetadataRequest(topics=None), 20_000)
    show("Heartbeat request 4", 12, "request", 4, HeartbeatRequest("group", 7, "member-0123456789"), 20_000)
    for version in (1, 9):
        show(f"Metadata response {version}, 5,000 partitions", 3, "response", version, metadata())
    show("LeaderAndIsr request 4, 5,000 partitions", 4, "request", 4, leader_and_isr())
    show("UpdateMetadata request 6, 5,000 partitions", 6, "request", 6, update_metadata())
    produce_and_fetch()


if __name__ == "__main__":
    main()
