"""Things that happen again are counted, and nobody drives out older lines."""

from ottla.broker.audit.repeats import OF_ADDRESS_MAX, THINGS_MAX, WINDOW_S, Fields, Repeats


def told(repeats: Repeats, thing: object, now_s: float = 0.0, address: str = "1.2.3.4") -> list[Fields]:
    return repeats.told("e", address, (thing,), lambda: {"thing": thing}, now_s)


def test_the_first_is_told_and_the_others_are_counted_after_a_minute() -> None:
    repeats = Repeats()
    assert told(repeats, 1) == [{"thing": 1}]
    assert told(repeats, 1, WINDOW_S - 1) == told(repeats, 1, WINDOW_S - 1) == []
    assert told(repeats, 2, 1.0) == [{"thing": 2}]
    assert repeats.due(WINDOW_S - 1) == []
    assert repeats.due(WINDOW_S) == [{"thing": 1, "left_out": 2}]
    assert told(repeats, 1, WINDOW_S) == [{"thing": 1}]
    assert repeats.due(float("inf")) == []


def test_one_that_comes_after_its_minute_is_told_with_the_count_of_those_before() -> None:
    repeats = Repeats()
    told(repeats, 1)
    told(repeats, 1)
    assert told(repeats, 1, WINDOW_S) == [{"thing": 1, "left_out": 1}, {"thing": 1}]


def test_an_address_that_does_too_many_things_does_others() -> None:
    repeats = Repeats()
    lines = [line for thing in range(3 * OF_ADDRESS_MAX) for line in told(repeats, thing)]
    assert lines[:OF_ADDRESS_MAX] == [{"thing": thing} for thing in range(OF_ADDRESS_MAX)]
    assert lines[OF_ADDRESS_MAX:] == [{"event": "e", "address": "1.2.3.4", "others": True}]
    assert told(repeats, 0, address="5.6.7.8") == [{"thing": 0}]
    assert repeats.due(WINDOW_S) == [
        {"event": "e", "address": "1.2.3.4", "others": True, "left_out": 2 * OF_ADDRESS_MAX - 1}
    ]
    assert told(repeats, 7, WINDOW_S) == [{"thing": 7}]


def test_the_oldest_of_too_many_things_is_forgotten_with_its_count() -> None:
    repeats = Repeats()
    told(repeats, 0)
    told(repeats, 0)
    for thing in range(1, THINGS_MAX):
        told(repeats, thing, address=str(thing))
    assert told(repeats, "new", address="another") == [{"thing": 0, "left_out": 1}, {"thing": "new"}]
