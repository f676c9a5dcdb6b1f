"""The memory that is held present for a case: as much as it took before, given free while it is taken."""

import threading

import pytest

from benches.suite import memory
from benches.suite.memory import AHEAD, LEAST, MB, MOST, PIECE, REHEARSED, SPARE, TAKEN, Memory


class Machine:
    """Memory that a test takes, and what is held of it."""

    def __init__(self) -> None:
        self.free = 20_000 * MB
        self.taken = 1_000 * MB
        self.held = 0
        self.given = threading.Semaphore(0)

    def kept(self, *names: str) -> int:
        return self.taken + self.held if names == TAKEN else self.free - self.held

    def present(self, size: int) -> "Piece":
        self.held += size
        return Piece(self, size)

    def take(self, size: int) -> None:
        self.taken += size
        self.free -= size


class Piece:
    def __init__(self, machine: Machine, size: int) -> None:
        self.machine, self.size = machine, size

    def close(self) -> None:
        self.machine.held -= self.size
        self.machine.given.release()


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(memory, "_kept", machine.kept)
    monkeypatch.setattr(memory, "_present", machine.present)
    monkeypatch.setattr(memory, "LOOK_S", 3600)  # it looks when a case begins and when it ends
    return machine


def measured(known: Memory, machine: Machine, case: str, size: int, is_rehearsal: bool = False) -> int:
    """The bytes that were held when the case began, given that `size` is taken in it."""
    with known.ready(case, is_rehearsal):
        held = machine.held + AHEAD
        machine.take(size)
    return held


def test_a_case_has_what_it_took_before(machine):
    known = Memory()
    assert measured(known, machine, "large", 800 * MB) == LEAST
    assert measured(known, machine, "large", 300 * MB) == pytest.approx(800 * MB * SPARE, abs=PIECE)
    assert measured(known, machine, "large", 0) == pytest.approx(800 * MB * SPARE, abs=PIECE)
    known.release()
    assert machine.held == 0


def test_it_is_given_free_as_it_is_taken(machine):
    known = Memory()
    measured(known, machine, "large", 2000 * MB)
    with known.ready("large", is_rehearsal=False):
        begun = machine.held
    assert begun == pytest.approx(2000 * MB * SPARE - AHEAD, abs=PIECE)
    measured(known, machine, "large", 700 * MB)
    assert machine.held == pytest.approx(begun - 700 * MB, abs=2 * PIECE)
    # What is left is there for the next one, which has nothing to wait for.
    left = machine.held
    measured(known, machine, "small", 0)
    assert machine.held == left - AHEAD


def test_the_first_round_goes_by_the_rehearsal(machine):
    known = Memory()
    assert measured(known, machine, "large", 200 * MB, is_rehearsal=True) == LEAST
    assert measured(known, machine, "large", 0) == pytest.approx(200 * MB * REHEARSED * SPARE, abs=PIECE)
    known.release()
    measured(known, machine, "huge", 3000 * MB, is_rehearsal=True)
    assert measured(known, machine, "huge", 0) == MOST


def test_half_of_what_is_free_stays_free(machine):
    machine.free = 600 * MB
    assert measured(Memory(), machine, "large", 0) == pytest.approx(300 * MB, abs=PIECE)


def test_a_case_that_fails_is_not_what_others_go_by(machine):
    known = Memory()
    with pytest.raises(ValueError, match="not compared"), known.ready("large", is_rehearsal=False):
        _fails_after(machine, 800 * MB)
    known.release()
    assert measured(known, machine, "large", 0) == LEAST


def test_pieces_are_given_while_the_case_runs(machine, monkeypatch):
    monkeypatch.setattr(memory, "LOOK_S", 0.001)
    with Memory().ready("large", is_rehearsal=False):
        for _ in range(AHEAD // PIECE):
            assert machine.given.acquire(timeout=0)
        machine.take(6 * PIECE)
        for _ in range(6):
            assert machine.given.acquire(timeout=10)


@pytest.mark.parametrize("has_populate", [True, False])
def test_touched_memory_is_present_and_given_back(monkeypatch, has_populate):
    resident = []

    class Watched(memory.mmap.mmap):
        def madvise(self, *what):
            if not has_populate:
                raise OSError
            super().madvise(*what)

        def close(self):
            resident.append(_resident_mb())
            super().close()

    monkeypatch.setattr(memory.mmap, "mmap", Watched)
    before = _resident_mb()
    memory.touch(64 * MB)
    assert resident[0] >= before + 60
    assert _resident_mb() < before + 10


def _fails_after(machine, taken: int) -> None:
    machine.take(taken)
    raise ValueError("not compared")


def _resident_mb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * memory.mmap.PAGESIZE // MB
