"""What is made present before a case: as much as it took before."""

import pytest

from benches.suite import memory
from benches.suite.memory import LEAST, MB, MOST, REHEARSED, SPARE, Memory


@pytest.fixture
def machine(monkeypatch):
    """Free memory that a test sets, and what was touched."""

    class Machine:
        def __init__(self) -> None:
            self.free = 20_000 * MB
            self.touched: list[int] = []

    machine = Machine()
    monkeypatch.setattr(memory, "_free", lambda: machine.free)
    monkeypatch.setattr(memory, "touch", machine.touched.append)
    return machine


def test_a_case_has_what_it_took_before(machine):
    known = Memory()
    for taken in (800 * MB, 300 * MB):
        with known.ready("large", is_rehearsal=False):
            machine.free -= taken
    with known.ready("large", is_rehearsal=False), known.ready("small", is_rehearsal=False):
        pass
    assert machine.touched == [LEAST, 1000 * MB, 800 * MB * SPARE, LEAST]


def test_the_first_round_goes_by_the_rehearsal(machine):
    known = Memory()
    for is_rehearsal in (True, False):
        with known.ready("large", is_rehearsal):
            machine.free -= 200 * MB
    for _ in range(2):
        with known.ready("huge", is_rehearsal=True):
            machine.free -= 3000 * MB
    assert machine.touched == [LEAST, int(200 * MB * REHEARSED * SPARE), LEAST, MOST]


def test_a_case_that_fails_is_not_what_others_go_by(machine):
    known = Memory()
    with pytest.raises(ValueError, match="not compared"), known.ready("large", is_rehearsal=False):
        _fails_after(machine, 800 * MB)
    with known.ready("large", is_rehearsal=False):
        pass
    assert machine.touched == [LEAST, LEAST]


@pytest.mark.parametrize("has_populate", [True, False])
def test_touched_memory_is_present_and_given_back(monkeypatch, has_populate):
    resident = []

    class Watched(memory.mmap.mmap):
        def madvise(self, *what):
            if not has_populate:
                raise OSError
            super().madvise(*what)

        def __exit__(self, *rest):
            resident.append(_resident_mb())
            super().__exit__(*rest)

    monkeypatch.setattr(memory.mmap, "mmap", Watched)
    before = _resident_mb()
    memory.touch(64 * MB)
    assert resident[0] >= before + 60
    assert _resident_mb() < before + 10


def _fails_after(machine, taken: int) -> None:
    machine.free -= taken
    raise ValueError("not compared")


def _resident_mb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * memory.mmap.PAGESIZE // MB
