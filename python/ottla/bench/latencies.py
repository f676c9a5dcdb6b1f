"""Latencies of any number of requests in bounded memory, within one part in 128 of their true values."""

from __future__ import annotations

import math
from collections import Counter

# Steps between a power of two and the next.
STEPS = 64


class Latencies:
    """A histogram with steps that grow with the values: 64 between each power of two of nanoseconds."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self.count = 0
        self.total_s = 0.0
        self.max_s = 0.0

    def record(self, seconds: float) -> None:
        """Takes one latency; what is negative (clocks) counts as nothing."""
        seconds = max(seconds, 1e-9)
        part, exponent = math.frexp(seconds)
        self._counts[exponent, int(part * 2 * STEPS)] += 1
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)

    @property
    def mean_ms(self) -> float:
        return self.total_s / self.count * 1e3 if self.count else 0.0

    def percentile_ms(self, percent: float) -> float:
        """The latency in milliseconds that `percent` of the requests do not exceed; 0.0 of none."""
        wanted = max(1, math.ceil(self.count * percent / 100))
        seen = 0
        for key in sorted(self._counts):
            seen += self._counts[key]
            if seen >= wanted:
                return min(_middle_s(key), self.max_s) * 1e3
        return 0.0

    def bars(self, count_max: int = 16) -> list[tuple[float, float, int]]:
        """The histogram for people: (from, to in milliseconds, how many), each twice as wide as the one before it."""
        powers: Counter[int] = Counter()
        for (exponent, _), count in self._counts.items():
            powers[exponent] += count
        if not powers:
            return []
        last = max(powers)
        first = max(min(powers), last - count_max + 1)
        rows = [(exponent, powers[exponent]) for exponent in range(first + 1, last + 1)]
        below = sum(count for exponent, count in powers.items() if exponent <= first)
        return [
            (math.ldexp(0.5, exponent) * 1e3, math.ldexp(1, exponent) * 1e3, count)
            for exponent, count in [(first, below), *rows]
        ]


def _middle_s(key: tuple[int, int]) -> float:
    exponent, step = key
    return math.ldexp((step + 0.5) / (2 * STEPS), exponent)
