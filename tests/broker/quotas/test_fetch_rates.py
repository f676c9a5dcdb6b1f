"""How often fetchers are answered, as the metrics tell it."""

from ottla.broker.watching.metrics import IDLE_S, _FetchRates

ONE, OTHER = (1, 0), (3, 0)


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = _FetchRates()
    assert rates.look({ONE: 50}, 100) == [0]
    assert rates.look({ONE: 60}, 102) == [5]
    assert rates.look({ONE: 150}, 100 + IDLE_S) == [100 / IDLE_S]
    # The look of the first moment goes when the second is old enough.
    assert rates.look({ONE: 150}, 100 + 2 * IDLE_S) == [0]


def test_a_fetcher_that_came_since_or_was_opened_anew_counts_from_zero() -> None:
    rates = _FetchRates()
    rates.look({ONE: 50}, 100)
    assert rates.look({ONE: 20, OTHER: 10}, 102) == [10, 5]
    assert rates.look({}, 103) == []
