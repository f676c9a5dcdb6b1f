"""The right results for generated events: counted from their columns with NumPy, and by nobody's pipeline.

`Answers(settings)` is given each chunk once (`add`); then its methods give the truths. Where a truth speaks of events,
duplicates count once; where it speaks of records, each counts.
"""

import json
from datetime import UTC, datetime

import numpy as np

from ottla.pipelines.generator.activity import CLICK, IMPRESSION, PAGE_VIEW, SERVICES, TYPES, Chunk
from ottla.pipelines.generator.lines import address
from ottla.pipelines.generator.randomness import Ints
from ottla.pipelines.generator.settings import HOUR_MS, Settings


def hour(number: int) -> str:
    """Of the hour since 1970 with this number, such as 2026-01-05 13."""
    return datetime.fromtimestamp(number * 3600, UTC).strftime("%Y-%m-%d %H")


class Answers:
    """Keeps the columns of all events: 100 bytes each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        """Takes a chunk."""
        self._chunks.append(chunk)

    def column(self, name: str) -> Ints:
        """A column of all records, duplicates included, in the order of arrival."""
        return np.concatenate([getattr(chunk, name) for chunk in self._chunks] or [np.zeros(0, np.int64)])

    def first(self) -> Ints:
        """The rows that are left without duplicates."""
        return np.unique(self.column("id"), return_index=True)[1]

    def records(self) -> int:
        """How many records."""
        return sum(len(chunk) for chunk in self._chunks)

    def events(self) -> int:
        """How many events."""
        return len(self.first())

    def events_of_types(self) -> dict[str, int]:
        """Events by type."""
        return dict(
            zip(TYPES, np.bincount(self.column("kind")[self.first()], minlength=len(TYPES)).tolist(), strict=True)
        )

    def records_of_hours(self) -> dict[str, int]:
        """Records by the hour of their time, UTC."""
        hours, counts = np.unique(self.column("time_ms") // HOUR_MS, return_counts=True)
        return {hour(number): count for number, count in zip(hours.tolist(), counts.tolist(), strict=True)}

    def watermark_ms(self, late_ms: int) -> int:
        """Before this time nothing can change any more for who waits `late_ms` for late events."""
        return int(self.column("time_ms").max()) - late_ms

    def visits(self, gap_ms: int, over_by_ms: int) -> dict[tuple[str, int], tuple[int, int]]:
        """Visits that were over (their last event + gap) at `over_by_ms`: (client, start) to (end, events), in ms."""
        rows = self.first()
        clients, times = self.column("client")[rows], self.column("time_ms")[rows]
        order = np.lexsort((times, clients))
        clients, times = clients[order], times[order]
        begins = np.flatnonzero(np.diff(clients, prepend=-1).astype(bool) | (np.diff(times, prepend=0) >= gap_ms))
        ends = np.append(begins[1:], len(times)) - 1
        return {
            (address(self.settings, client), start): (end, count)
            for client, start, end, count in zip(
                clients[begins].tolist(),
                times[begins].tolist(),
                times[ends].tolist(),
                (ends - begins + 1).tolist(),
                strict=True,
            )
            if end + gap_ms <= over_by_ms
        }

    def crawlers(self) -> set[str]:
        """The addresses of the crawlers."""
        return {address(self.settings, client) for client in range(self.settings.bots)}

    def rates(self, over_by_ms: int) -> dict[tuple[str, int], tuple[int, int, int, int]]:
        """Hours that were over at `over_by_ms`: (client, start in ms) to requests in the hour, most requests in a
        minute (one begins each 20 s) that ends in it, most in ten seconds (each 5 s), and distinct pages (an item's
        page is counted by item).
        """
        rows = self.first()
        clients, times = self.column("client")[rows], self.column("time_ms")[rows]
        items, kinds = self.column("item")[rows], self.column("kind")[rows]
        # Impressions are all seen on one page; of the other kinds, each item, or else the kind, is a page.
        pages = np.where((items >= 0) & (kinds != IMPRESSION), items, -1 - np.where(kinds == CLICK, PAGE_VIEW, kinds))
        found: dict[tuple[int, int], list[int]] = {}
        for length_ms, slide_ms, place in ((HOUR_MS, HOUR_MS, 0), (60_000, 20_000, 1), (10_000, 5_000, 2)):
            # By the last slide of each window: a request is in the window that ends with its own, and in later ones.
            last = [times // slide_ms + later for later in range(length_ms // slide_ms)]
            pairs = np.stack([np.tile(clients, len(last)), np.concatenate(last)], 1)
            windows, counts = np.unique(pairs, axis=0, return_counts=True)
            for (client, number), count in zip(windows.tolist(), counts.tolist(), strict=True):
                key = (client, number * slide_ms // HOUR_MS)
                # Longest first: an hour without requests is none, though a minute that began before may end in it.
                if length_ms == HOUR_MS or key in found:
                    entry = found.setdefault(key, [0, 0, 0, 0])
                    entry[place] = max(entry[place], count)
        distinct = np.unique(np.stack([clients, times // HOUR_MS, pages], 1), axis=0)[:, :2]
        for client, number in distinct.tolist():
            found[client, number][3] += 1
        return {
            (address(self.settings, client), number * HOUR_MS): (total, minute, short, different)
            for (client, number), (total, minute, short, different) in found.items()
            if (number + 1) * HOUR_MS <= over_by_ms
        }

    def services(self, window_ms: int, over_by_ms: int) -> dict[tuple[str, int], tuple[int, int, int, int]]:
        """Windows that were over at `over_by_ms`: (service, start in ms) to requests, those answered with 500 or more,
        and the 50th and 99th percentile of latencies (the smallest that so many are not above), in ms.
        """
        rows = self.first()
        times, services = self.column("time_ms")[rows] // window_ms, self.column("service")[rows]
        statuses, latencies = self.column("status")[rows], self.column("latency_ms")[rows]
        order = np.lexsort((latencies, times, services))
        groups = np.flatnonzero(np.diff(services[order], prepend=-1) | np.diff(times[order], prepend=-1))
        found = {}
        for part in np.split(order, groups[1:]):
            start = int(times[part[0]]) * window_ms
            if start + window_ms <= over_by_ms:
                ranks = [-(-len(part) * percent // 100) - 1 for percent in (50, 99)]
                p50, p99 = (int(latencies[part[rank]]) for rank in ranks)
                found[SERVICES[services[part[0]]], start] = (len(part), int((statuses[part] >= 500).sum()), p50, p99)
        return found

    def rates_of_items(self, window_ms: int, click_ms: int) -> dict[tuple[int, int], tuple[int, int]]:
        """(item, start of a window in ms) to its impressions, and how many of them were clicked within `click_ms`."""
        rows = self.first()
        kinds, times, ids = (self.column(name)[rows] for name in ("kind", "time_ms", "id"))
        items, impressions = self.column("item")[rows], self.column("impression")[rows]
        when = dict(zip(ids[kinds == IMPRESSION].tolist(), times[kinds == IMPRESSION].tolist(), strict=True))
        clicks = zip(impressions[kinds == CLICK].tolist(), times[kinds == CLICK].tolist(), strict=True)
        clicked = {shown for shown, time in clicks if 0 <= time - when[shown] <= click_ms}
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for number, item in zip(ids[kinds == IMPRESSION].tolist(), items[kinds == IMPRESSION].tolist(), strict=True):
            key = (item, when[number] // window_ms * window_ms)
            shown, before = found.get(key, (0, 0))
            found[key] = (shown + 1, before + (number in clicked))
        return found

    def json(self) -> str:
        """The truths that are small, for people and other programs."""
        return json.dumps(
            {
                "records": self.records(),
                "events": self.events(),
                "events_of_types": self.events_of_types(),
                "records_of_hours": self.records_of_hours(),
            },
            indent=1,
        )
