"""What brokers say of themselves, into a topic: each answer of `/metrics` is a record, for pipelines such as
`ops_monitoring` (format "ottla").

The key is where it was scraped, the value the text as it came (Prometheus' text format), the time that of the scrape.
Counters only grow, so that an answer that is lost, or one too many, changes no sum.
"""

import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

import trio

from ottla.client import Cluster, Producer

SECONDS_MAX = 10.0
"""How long an answer may take; a broker that is silent does not keep the others waiting."""


def scrape(url: str) -> bytes:
    """The text of one address. Raises OSError: there is no answer, or (HTTPError) another than the text."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise


async def feed(
    cluster: Cluster,
    topic: str,
    urls: Sequence[str],
    *,
    every_s: float,
    times: int | None = None,
    failed: Callable[[str, OSError], object] = lambda url, problem: None,
    produced: Callable[[int], object] = lambda records: None,
) -> int:
    """Scrapes all addresses every so many seconds, for ever or so many `times`, and produces what they say; gives the
    number of records. `failed` is told of an address that does not answer; its silence is what `ops_monitoring` tells.
    `produced` is told after each round how many records there are in all.

    Raises:
        KafkaError, OSError: the records could not be produced.
    """
    records = 0

    async def one(url: str) -> None:
        nonlocal records
        try:
            text = await trio.to_thread.run_sync(scrape, url, abandon_on_cancel=True)
        except OSError as problem:
            failed(url, problem)
            return
        await producer.send(topic, text, key=url.encode())
        records += 1

    async with Producer(cluster, compression="zstd") as producer:
        rounds = 0
        start = trio.current_time()
        while times is None or rounds < times:
            await trio.sleep_until(start + rounds * every_s)
            async with trio.open_nursery() as nursery:
                for url in urls:
                    nursery.start_soon(one, url)
            await producer.flush()
            produced(producer.acknowledged)
            rounds += 1
    return records
