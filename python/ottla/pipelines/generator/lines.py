"""Events as JSON, one line each, and the keys of their records.

    {"id":7,"type":"click","time":1767571260123,"member":3,"client":"10.0.0.8","service":"web-2","status":200,
     "latency_ms":9,"item":17,"position":2,"impression":5,"page":"/items/17"}

`time` is when it happened, in milliseconds since 1970. Fields that an event does not have are left out: crawlers have
no member, only clicks have an impression. Version 2 of the producers adds `"referrer"`.
"""

from collections.abc import Iterator

from ottla.pipelines.generator.activity import (
    CLICK,
    IMPRESSION,
    LOGIN,
    NOBODY,
    PAGE_VIEW,
    PROFILE_UPDATE,
    SEARCH,
    SERVICES,
    TYPES,
    Chunk,
)
from ottla.pipelines.generator.settings import Settings

REFERRERS = ("https://search.example/", "https://social.example/", "")
PAGES = {SEARCH: "/search", LOGIN: "/login", PROFILE_UPDATE: "/profile"}


def address(settings: Settings, client: int) -> str:
    """The address of a client: crawlers are in 66.249.0.0/16, people in 10.0.0.0/8."""
    if client < settings.bots:
        return f"66.249.{client >> 8 & 255}.{client & 255}"
    return f"10.{client >> 16 & 255}.{client >> 8 & 255}.{client & 255}"


def lines(settings: Settings, chunk: Chunk) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and time in milliseconds of each event; the key is the member, or the address where there is none."""
    services = [name.encode() for name in SERVICES]
    types = [name.encode() for name in TYPES]
    referrers = [b',"referrer":"%b"' % name.encode() for name in REFERRERS]
    addresses = {client: address(settings, client).encode() for client in set(chunk.client.tolist())}
    columns = (
        chunk.id, chunk.kind, chunk.time_ms, chunk.member, chunk.client, chunk.item, chunk.position,
        chunk.impression, chunk.service, chunk.status, chunk.latency_ms, chunk.version,
    )  # fmt: skip
    for number, kind, time, member, client, item, position, impression, service, status, latency, version in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        where = addresses[client]
        if member == NOBODY:
            key, who = where, b""
        else:
            key = b"%d" % member
            who = b'"member":%d,' % member
        if kind == PAGE_VIEW:
            what = b',"item":%d,"page":"/items/%d"' % (item, item)
        elif kind == IMPRESSION:
            what = b',"item":%d,"position":%d,"page":"/feed"' % (item, position)
        elif kind == CLICK:
            what = b',"item":%d,"position":%d,"impression":%d,"page":"/items/%d"' % (item, position, impression, item)
        else:
            what = b',"page":"%b"' % PAGES[kind].encode()
        if version >= 2:
            what += referrers[number % len(referrers)]
        yield (
            key,
            b'{"id":%d,"type":"%b","time":%d,%b"client":"%b","service":"%b","status":%d,"latency_ms":%d%b}'
            % (number, types[kind], time, who, where, services[service], status, latency, what),
            time,
        )
