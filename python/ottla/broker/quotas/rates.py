"""How much somebody used, and how long to wait until it is little enough. No clock: every call is told the time.

Both are Kafka's to the number (metrics/stats/Rate.java, TokenBucket.java), so that the same quota throttles the same
client for the same time; but for a quota of 0, where Kafka's arithmetic overflows.
"""

from __future__ import annotations

from typing import NamedTuple

#: The longest throttle time that an answer can tell, in milliseconds.
THROTTLE_MS_MAX = 2**31 - 1


def _whole_ms(milliseconds: float) -> int:
    return int(min(milliseconds + 0.5, THROTTLE_MS_MAX))


class Window(NamedTuple):
    """The time over which a rate is measured: `samples` windows of `size_ms`, the current one included."""

    samples: int = 11
    size_ms: int = 1000

    @property
    def whole_ms(self) -> int:
        return self.samples * self.size_ms


class Rate:
    """Units per second over a sliding window."""

    __slots__ = ("_samples", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        #: [begin, sum], oldest first
        self._samples: list[list[float]] = []

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self.window.size_ms:
            self._purge(now_ms)
            samples.append([now_ms, 0.0])
        samples[-1][1] += value

    def per_second(self, now_ms: int) -> float:
        self._purge(now_ms)
        return sum(value for _, value in self._samples) / self._elapsed_ms(now_ms) * 1000

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is back at `quota`; 0 if it is not above. That would be for ever
        with a quota of nothing, which somebody may lift: then it is the whole window, after which it is asked again.

        With a rate O over a window W and a target T, the window must grow by X: O * W / (W + X) = T.
        """
        rate = self.per_second(now_ms)
        if rate <= quota:
            return 0
        if quota <= 0:
            return self.window.whole_ms
        return _whole_ms((rate - quota) / quota * self._elapsed_ms(now_ms))

    def _purge(self, now_ms: int) -> None:
        samples, (count, size_ms) = self._samples, self.window
        while samples and (now_ms - samples[0][0] >= count * size_ms or len(samples) > count):
            del samples[0]

    def _elapsed_ms(self, now_ms: int) -> float:
        """The time that the samples cover. It counts as nearly the whole window from the start: one request of a new
        client is no rate yet.
        """
        count, size_ms = self.window
        elapsed = now_ms - self._samples[0][0] if self._samples else 0.0
        missing = count - 1 - elapsed // size_ms
        return elapsed + max(0.0, missing) * size_ms


class TokenBucket:
    """Permits that grow back at `quota` per second, up to those of the whole window (KIP-599). What is taken may exceed
    what is there; then nobody gets any before that is made up for.
    """

    __slots__ = ("_at_ms", "_tokens", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._tokens = 0.0
        #: A bucket begins full, however long it takes to fill: as if it had been there for ever.
        self._at_ms: int | None = None

    def take(self, permits: float, quota: float, now_ms: int) -> None:
        self._refill(quota, now_ms)
        self._tokens = min(self._burst(quota), self._tokens - permits)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long until there are permits again; 0 if there are some. The whole window if there never are."""
        self._refill(quota, now_ms)
        if self._tokens >= 0:
            return 0
        if quota <= 0:
            return self.window.whole_ms
        return _whole_ms(-self._tokens / quota * 1000)

    def _burst(self, quota: float) -> float:
        return self.window.whole_ms / 1000 * quota

    def _refill(self, quota: float, now_ms: int) -> None:
        burst = self._burst(quota)
        if self._at_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + quota * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms
