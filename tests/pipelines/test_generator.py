"""The invented activity: what is promised about it, seen in its bytes alone."""

import io
import json
from collections import Counter
from itertools import pairwise

import pytest
import trio

from ottla.client import Cluster, Consumer, TopicPartition
from ottla.kafka import EARLIEST
from ottla.pipelines.generator.answers import Answers
from ottla.pipelines.generator.output import to_file, to_topic
from ottla.pipelines.generator.settings import Settings
from tests.peers.ottla import Broker

SETTINGS = Settings(events=60_000, seed=5, members=500, items=50)


def generated(settings: Settings) -> tuple[bytes, Answers]:
    file, answers = io.BytesIO(), Answers(settings)
    to_file(settings, file, seen=answers.add)
    return file.getvalue(), answers


@pytest.fixture(scope="module")
def made() -> tuple[list[dict[str, object]], Answers]:
    data, answers = generated(SETTINGS)
    return [json.loads(line) for line in data.splitlines()], answers


def test_the_same_seed_gives_the_same_bytes() -> None:
    few = Settings(events=3000, seed=5)
    assert generated(few)[0] == generated(few)[0]
    assert generated(few)[0] != generated(Settings(events=3000, seed=6))[0]


def test_answers_agree_with_the_bytes(made: tuple[list[dict[str, object]], Answers]) -> None:
    events, answers = made
    assert answers.records() == len(events) == 60_000
    kinds = {event["id"]: event["type"] for event in events}
    assert answers.events() == len(kinds) < 60_000
    assert answers.events_of_types() == Counter(kinds.values())
    assert sum(answers.records_of_hours().values()) == 60_000


def test_it_is_like_activity(made: tuple[list[dict[str, object]], Answers]) -> None:
    events, _ = made
    by_id = {event["id"]: event for event in events}
    clicks = [event for event in by_id.values() if event["type"] == "click"]
    for click in clicks:
        shown = by_id[click["impression"]]
        assert shown["type"] == "impression"
        assert (shown["item"], shown["member"]) == (click["item"], click["member"])
        assert 0 < click["time"] - shown["time"] <= 60_000  # type: ignore[operator]
    members = Counter(event["member"] for event in by_id.values() if "member" in event)
    (first, most), (_, second) = members.most_common(2)
    assert first == 0
    assert 1.5 < most / second < 2.5, "Zipf: the first has twice as much as the second"
    crawlers = {event["client"] for event in by_id.values() if "member" not in event}
    assert len(crawlers) == SETTINGS.bots
    late = sum(
        later["time"] < earlier["time"] - 60_000  # type: ignore[operator]
        for earlier, later in pairwise(events)
    )
    assert late > 300
    changed = [event["id"] for event in events if "referrer" in event]
    assert 10_000 < len(changed) < 50_000


def test_a_duplicate_is_the_same_event(made: tuple[list[dict[str, object]], Answers]) -> None:
    events, _ = made
    seen: dict[object, dict[str, object]] = {}
    for event in events:
        assert seen.setdefault(event["id"], event) == event


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"events": 0}, "events is 0; it is at least 1"),
        ({"late_share": 1.5}, "late_share is 1.5; it is a share from 0 to 1"),
        ({"bot_share": 0.9}, "bot_share and duplicate_share leave less"),
    ],
)
def test_settings_out_of_range(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("events", [1, 2, 7, 50_001])
def test_few_events(events: int) -> None:
    data, answers = generated(Settings(events=events, bots=0 if events == 2 else 1, items=1, members=1))
    assert len(data.splitlines()) == answers.records() == events


def test_into_a_topic(broker: Broker) -> None:
    """The records' values are the file's lines, their times the events', and keys keep a member in one partition."""
    settings = Settings(events=2000, seed=9)
    found: list[tuple[int, bytes, bytes, int]] = []

    async def main() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await to_topic(settings, cluster, "activity", partitions=3)
            consumer = Consumer(cluster)
            await consumer.assign({TopicPartition("activity", number): EARLIEST for number in range(3)})
            while len(found) < 2000:
                for record in await consumer.poll():
                    assert record.key is not None
                    assert record.value is not None
                    found.append((record.partition, record.key, record.value, record.timestamp_ms))

    trio.run(main)
    assert sorted(value for _, _, value, _ in found) == sorted(generated(settings)[0].splitlines())
    assert all(json.loads(value)["time"] == time for _, _, value, time in found)
    places = {(key, partition) for partition, key, _, _ in found}
    assert len(places) == len({key for key, _ in places}) > 100
    assert {partition for _, partition in places} == {0, 1, 2}
