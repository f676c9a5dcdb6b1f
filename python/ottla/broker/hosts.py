"""The addresses of clients, as access rules and the audit log have them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(1024)
def host_of(address: str) -> str:
    """An IP address as Java writes it, and rules have it: IPv6 without `::`, and IPv4 in it as IPv4."""
    if ":" not in address:
        return address
    bare, percent, scope = address.partition("%")
    found = ipaddress.IPv6Address(bare)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in found.exploded.split(":")) + percent + scope
