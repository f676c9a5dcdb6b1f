"""Random numbers whose sequence is a promise: NumPy keeps that of its bit generators, not that of its distributions.

Only the raw 64 bits are taken from NumPy; what is made of them is here.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Randomness:
    """One stream of numbers, decided by whole numbers from 0 up."""

    def __init__(self, *seed: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed))

    def uniform(self, count: int) -> Floats:
        """Numbers from 0 up to, not including, 1."""
        return (self._bits.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: int, count: int) -> Ints:
        """Whole numbers from 0 up to, not including, `limit`."""
        return (self.uniform(count) * limit).astype(np.int64)

    def weighted(self, cumulative: Floats, count: int) -> Ints:
        """Indices, each as often as its weight says; `cumulative` are the weights added up."""
        found: Ints = np.searchsorted(cumulative, self.uniform(count) * cumulative[-1], side="right").astype(np.int64)
        return found

    def sample(self, weights: Floats, count: int) -> Ints:
        """`count` different indices, heavier ones more likely (exponential keys: Efraimidis and Spirakis, 2006)."""
        keys = -np.log1p(-self.uniform(len(weights))) / weights
        return np.sort(np.argsort(keys, kind="stable")[:count]).astype(np.int64)


def zipf(count: int) -> Floats:
    """The weights 1, 1/2, 1/3, ... added up."""
    return np.cumsum(1.0 / np.arange(1, count + 1))
