"""The events in columns, some tens of thousands at a time, in the order in which they arrive.

Each chunk has its own stretch of time and its own random numbers, so memory does not grow with the number of events,
and a chunk does not depend on what came before. Whatever belongs together (a click and its impression, an event and
its duplicate) is in one chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from ottla.pipelines.generator.randomness import Floats, Ints, Randomness, zipf
from ottla.pipelines.generator.settings import CHUNK_EVENTS, Settings

PAGE_VIEW, IMPRESSION, CLICK, SEARCH, LOGIN, PROFILE_UPDATE = range(6)
TYPES = ("page_view", "impression", "click", "search", "login", "profile_update")
CLICKS_OF_IMPRESSIONS = 0.2
# Of the events that are neither clicks nor a crawler's: page views, impressions, searches, logins, profile updates.
KINDS = np.array([PAGE_VIEW, IMPRESSION, SEARCH, LOGIN, PROFILE_UPDATE])
KIND_WEIGHTS = np.cumsum([0.55, 0.30, 0.08, 0.05, 0.02])
POSITIONS = 10
SERVICES = ("web-1", "web-2", "web-3", "search-1")
STATUSES = np.array([200, 304, 404, 500, 503])
STATUS_WEIGHTS = np.cumsum([0.93, 0.03, 0.025, 0.01, 0.005])
# A crawler asks this often while it is at work.
BOT_INTERVAL_MS = 200
NETWORK_MS_MAX = 500
CLICK_DELAY_MS_MAX = 60_000
DUPLICATE_DELAY_MS_MAX = 60_000
NOBODY = -1


@dataclass(slots=True)
class Chunk:
    """Events in the order of arrival, one array per field. NOBODY (-1) stands for an absent value.

    `client` is a number that stands for an address; those below `Settings.bots` are crawlers. `impression` is the id
    of the impression that was clicked. Duplicates have the `id` of their original.
    """

    id: Ints
    kind: Ints
    time_ms: Ints
    arrival_ms: Ints
    member: Ints
    client: Ints
    item: Ints
    position: Ints
    impression: Ints
    service: Ints
    status: Ints
    latency_ms: Ints
    version: Ints

    def __len__(self) -> int:
        return len(self.id)

    def take(self, rows: Ints) -> "Chunk":
        """Some of the events, in the order of `rows`."""
        return Chunk(*(getattr(self, field.name)[rows] for field in fields(self)))


def chunks(settings: Settings) -> Iterator[Chunk]:
    """All events."""
    quality = 0.2 + 0.8 * Randomness(settings.seed, 0).uniform(settings.items)
    first = 0
    while first < settings.events:
        count = min(CHUNK_EVENTS, settings.events - first)
        yield _chunk(settings, first, count, quality)
        first += count


def _chunk(settings: Settings, first: int, count: int, quality: Floats) -> Chunk:
    random = Randomness(settings.seed, 1 + first // CHUNK_EVENTS)
    duplicates = round(count * settings.duplicate_share)
    bots = round(count * settings.bot_share) if settings.bots else 0
    people = count - duplicates - bots
    # The share of impressions among people's events is known only on average: clicks are a fixed number of them.
    clicks = int(people * 0.3 * CLICKS_OF_IMPRESSIONS)
    events = _people(settings, random, first, count, people - clicks)
    events = _joined(events, _clicks(random, events, quality, clicks))
    events = _joined(events, _bots(settings, random, first, count, bots))
    _serve(settings, random, events, first, count)
    _deliver(settings, random, events)
    events = _numbered(events, first)
    copies = events.take(np.sort(random.below(max(1, len(events)), duplicates if len(events) else 0)))
    copies.arrival_ms = copies.arrival_ms + 1 + random.below(DUPLICATE_DELAY_MS_MAX, len(copies))
    events = _joined(events, copies)
    return events.take(np.argsort(events.arrival_ms, kind="stable"))


def _times(settings: Settings, position: Floats) -> Ints:
    """Times for positions from 0 to 1 in the sequence of events: a day's rhythm, four times as busy at noon."""
    hours = np.linspace(0, settings.span_ms / 3_600_000, 2001)
    rate = 1 - 0.6 * np.cos((hours - 1) * np.pi / 12)
    done = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    return settings.start_ms + (np.interp(position, done / done[-1], hours) * 3_600_000).astype(np.int64)


def _blank(count: int) -> Chunk:
    return Chunk(*(np.full(count, NOBODY, np.int64) for _ in fields(Chunk)))


def _joined(one: Chunk, other: Chunk) -> Chunk:
    names = [field.name for field in fields(Chunk)]
    return Chunk(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in names))


def _people(settings: Settings, random: Randomness, first: int, span: int, count: int) -> Chunk:
    events = _blank(count)
    events.kind = KINDS[random.weighted(KIND_WEIGHTS, count)]
    events.time_ms = _times(settings, (first + random.uniform(count) * span) / settings.events)
    events.member = random.weighted(zipf(settings.members), count)
    events.client = settings.bots + events.member
    has_item = (events.kind == PAGE_VIEW) | (events.kind == IMPRESSION)
    events.item = np.where(has_item, random.weighted(zipf(settings.items), count), NOBODY)
    events.position = np.where(events.kind == IMPRESSION, random.below(POSITIONS, count), NOBODY)
    return events


def _clicks(random: Randomness, events: Chunk, quality: Floats, count: int) -> Chunk:
    """Clicks on impressions: better items, and those that stand higher, get more. `impression` is a row for now."""
    shown = np.flatnonzero(events.kind == IMPRESSION)
    rows = shown[random.sample(quality[events.item[shown]] / (1 + 0.5 * events.position[shown]), count)]
    clicks = events.take(rows)
    clicks.kind = np.full(len(rows), CLICK)
    clicks.impression = rows.astype(np.int64)
    clicks.time_ms = clicks.time_ms + 1 + random.below(CLICK_DELAY_MS_MAX, len(rows))
    missing = count - len(rows)
    return _joined(clicks, events.take(random.below(max(1, len(events)), missing))) if missing else clicks


def _bots(settings: Settings, random: Randomness, first: int, span: int, count: int) -> Chunk:
    """Each crawler works once per chunk, in one go, through the pages in their order."""
    events = _blank(count)
    events.kind = np.full(count, PAGE_VIEW)
    starts = _times(settings, (first + random.uniform(max(1, settings.bots)) * span * 0.9) / settings.events)
    number = np.arange(count)
    events.client = number % max(1, settings.bots)
    visit = number // max(1, settings.bots)
    jitter = random.below(BOT_INTERVAL_MS, count)
    events.time_ms = starts[events.client] + visit * BOT_INTERVAL_MS + jitter
    events.item = (first + 31 * events.client + visit) % settings.items
    return events


def _serve(settings: Settings, random: Randomness, events: Chunk, first: int, span: int) -> None:
    """Which service answered, how, and how fast; one service has a bad spell in the middle of everything."""
    count = len(events)
    events.service = np.where(events.kind == SEARCH, 3, random.below(3, count))
    events.status = STATUSES[random.weighted(STATUS_WEIGHTS, count)]
    events.latency_ms = (5 * np.exp(2.2 * random.uniform(count) ** 2)).astype(np.int64) + 1
    middle = settings.start_ms + settings.span_ms // 2
    spell = (np.abs(events.time_ms - middle) < settings.span_ms // 100) & (events.service == 1)
    events.latency_ms = np.where(spell, events.latency_ms * 10, events.latency_ms)
    events.status = np.where(spell & (random.uniform(count) < 0.4), 503, events.status)
    changed = settings.start_ms if not settings.changed_at else _times(settings, np.array([settings.changed_at]))[0]
    events.version = np.where(events.time_ms >= changed, 2, 1)


def _deliver(settings: Settings, random: Randomness, events: Chunk) -> None:
    count = len(events)
    late = random.uniform(count) < settings.late_share
    delay = np.where(late, random.below(settings.late_ms_max + 1, count), random.below(NETWORK_MS_MAX, count))
    events.arrival_ms = events.time_ms + delay


def _numbered(events: Chunk, first: int) -> Chunk:
    """In the order of time, which is that of their ids; clicks learn the id of their impression.

    A chunk's ids begin at `first`; with its duplicates it has as many events as there are ids before the next one's.
    """
    order = np.argsort(events.time_ms, kind="stable")
    events.id[order] = first + np.arange(len(events))
    clicks = np.flatnonzero(events.impression != NOBODY)
    events.impression[clicks] = events.id[events.impression[clicks]]
    return events.take(order)
