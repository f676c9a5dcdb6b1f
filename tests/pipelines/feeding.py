"""Members and their followers, and what has to be in whose feed."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ottla.pipelines.generator.activity import TYPES
from ottla.pipelines.generator.answers import Answers
from tests.spark.committed import messages

CONFIGURATION = """
followers = "{folder}/followers.parquet"
followers_max = {cap}
types = ["click", "page_view"]
picture = "{folder}/{name}/feeds.png"
[source]
bootstrap = "{bootstrap}"
topics = ["activity"]
[target]
bootstrap = "{bootstrap}"
partitions = 3
[stream]
checkpoint = "{folder}/{name}/checkpoint"
records_per_batch = {batch}
"""
CAP = 100
FOLLOWS = 30_000


class Feeds:
    """Everybody follows a few, and many the same ones."""

    def __init__(self, members: int) -> None:
        random = np.random.default_rng(7)
        shares = 1 / np.arange(1, members + 1)
        # Who is followed most is not who does most.
        names = random.permutation(members)
        followed = names[random.choice(members, FOLLOWS, p=shares / shares.sum())]
        pairs = set(zip(followed.tolist(), random.integers(0, members, FOLLOWS).tolist(), strict=True))
        self.followers: dict[int, list[int]] = defaultdict(list)
        for member, follower in sorted(pairs):
            self.followers[member].append(follower)

    def write(self, file: Path) -> None:
        """Pairs, some of them twice."""
        pairs = [(member, follower) for member, of in self.followers.items() for follower in of]
        pairs += pairs[:100]
        members, followers = zip(*pairs, strict=True)
        parquet.write_table(pa.table({"member": members, "follower": followers}), file)

    def check(self, bootstrap: str, answers: Answers) -> None:
        """Each event once in the feed of each follower, and once where celebrities are; in the order of the log."""
        kinds, members, ids = (answers.column(name) for name in ("kind", "member", "id"))
        wanted = np.isin(kinds, [TYPES.index("click"), TYPES.index("page_view")]) & (members >= 0)
        rows = np.intersect1d(np.flatnonzero(wanted), answers.first())
        events = sorted(zip(rows.tolist(), members[rows].tolist(), ids[rows].tolist(), strict=True))
        pushed: Counter[tuple[int, int]] = Counter()
        pulled: Counter[tuple[int, int]] = Counter()
        for _, member, number in events:
            followers = self.followers.get(member, [])
            if len(followers) > CAP:
                pulled[member, number] += 1
            else:
                pushed.update((follower, number) for follower in followers)
        assert len(pulled) > 50
        assert len(pushed) > 5000
        places = {number: place for place, (_, _, number) in enumerate(events)}
        once = {number for number, count in Counter(ids.tolist()).items() if count == 1}
        for topic, expected in (("feeds", pushed), ("celebrities", pulled)):
            found: Counter[tuple[int, int]] = Counter()
            newest: dict[tuple[int, int], int] = {}
            homes: dict[int, int] = {}
            for message in messages(bootstrap, topic):
                key, event = int(message.key()), json.loads(message.value())
                assert homes.setdefault(key, message.partition()) == message.partition()
                found[key, event["id"]] += 1
                if event["id"] in once:
                    # Who reads twice what was written once sees an order that depends on which of both was taken.
                    place = places[event["id"]]
                    assert newest.get((key, event["member"]), -1) < place, (topic, key, event)
                    newest[key, event["member"]] = place
            assert found == expected
            assert set(found.values()) == {1}
