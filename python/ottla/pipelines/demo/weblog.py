"""Where the web requests come from: a file in the combined format of web servers, or an invented one.

The invented file is the same for the same seed: a few days with a daily rhythm, pages and addresses by Zipf's law,
crawlers, broken links and a spell of server errors, so that the picture has something to show.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import cos, pi
from pathlib import Path

START = datetime(2015, 5, 17, 10, tzinfo=UTC)
DAYS = 4
SECTIONS = ("articles", "blog", "projects", "files", "presentations", "images")
WORDS = ("logs", "clusters", "queues", "offsets", "leaders", "segments", "streams", "brokers", "batches", "replicas")
AGENTS = (
    "Mozilla/5.0 (Windows NT 6.1; WOW64; rv:27.0) Gecko/20100101 Firefox/27.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_2) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/33.0.1750.91",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Tiny Tiny RSS/1.11 (http://tt-rss.org/)",
)


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))


def lines(count: int, seed: int) -> Iterator[str]:
    """`count` requests in the order of time."""
    choice = random.Random(seed)
    pages = [
        "/",
        "/favicon.ico",
        "/robots.txt",
        *(f"/{section}/{a}-and-{b}/" for section in SECTIONS for a in WORDS for b in WORDS),
    ]
    addresses = [".".join(str(choice.randint(1, 254)) for _ in range(4)) for _ in range(1500)]
    page_weights, address_weights = _zipf(len(pages)), _zipf(len(addresses))
    hours = [START + timedelta(hours=hour) for hour in range(24 * DAYS)]
    rhythm = [1.6 - cos((hour.hour - 3) * pi / 12) for hour in hours]
    outage = range(40, 43)
    seconds = sorted(
        3600 * hour + choice.randrange(3600) for hour in choice.choices(range(len(hours)), rhythm, k=count)
    )
    for second in seconds:
        number, time = second // 3600, START + timedelta(seconds=second)
        page = choice.choices(pages, cum_weights=page_weights)[0]
        status, size = 200, choice.randint(300, 60_000)
        if number in outage and choice.random() < 0.3:
            status, size = 503, 0
        elif choice.random() < 0.025:
            page, status, size = f"{page.rstrip('/')}/missing", 404, 298
        elif choice.random() < 0.04:
            status, size = 304, 0
        query = f"?page={choice.randint(1, 9)}" if choice.random() < 0.05 else ""
        yield (
            f"{choice.choices(addresses, cum_weights=address_weights)[0]} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "
            f'"GET {page}{query} HTTP/1.1" {status} {size or "-"} "-" "{choice.choice(AGENTS)}"'
        )


def read(path: Path) -> list[str]:
    """The lines of a file; bytes that are not UTF-8 are kept as they are (surrogates)."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    return [line for line in text.split("\n") if line]
