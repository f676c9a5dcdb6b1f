"""Which logs may have lost their ends, by the machine's boot id and the clean-shutdown mark."""

import shutil
from pathlib import Path

import pytest

from ottla.kafka import PartitionKey
from ottla.replication import boots
from ottla.replication.log_manager import LogManager
from tests.support.log_manager import Settings, config, paths

pytestmark = pytest.mark.trio
MARK = ".kafka_cleanshutdown"


class Machine:
    """One with a broker's directories, of which `a` has the log 0 and `b` the log 1."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = paths(tmp_path)
        self._monkeypatch = monkeypatch
        self.boots(1)

    def boots(self, number: int) -> None:
        self._monkeypatch.setenv(boots.VARIABLE, str(number))

    async def runs(self, *, sure_of: tuple[PartitionKey, ...] = (), clean: bool = True) -> set[PartitionKey]:
        """Starts and ends; what it was not sure of."""
        settings = Settings(config(*self.paths))
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            found = set(logs.suspects)
            logs.note_suspects(found | logs.without_log)
            await logs.open_or_create("t", [0, 1])
            if sure_of:
                logs.note_suspects(found.difference(sure_of))
        if not clean:
            for path in self.paths:
                (path / MARK).unlink()
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


async def test_a_killed_process_loses_nothing(machine: Machine) -> None:
    assert await machine.runs(clean=False) == set()
    assert await machine.runs() == set()


async def test_a_clean_stop_loses_nothing(machine: Machine) -> None:
    await machine.runs()
    machine.boots(2)
    assert await machine.runs() == set()


async def test_a_machine_that_starts_anew_may_have_lost_something(machine: Machine) -> None:
    await machine.runs(clean=False)
    machine.boots(2)
    both = {("t", 0), ("t", 1)}
    # It stays so over any stop, until somebody is sure again.
    assert await machine.runs(clean=False) == both
    assert await machine.runs() == both
    assert await machine.runs(sure_of=(("t", 1),)) == both
    assert await machine.runs(clean=False) == {("t", 0)}
    assert await machine.runs(sure_of=(("t", 0),)) == {("t", 0)}
    assert await machine.runs() == set()


async def test_each_directory_for_itself(machine: Machine) -> None:
    await machine.runs()
    (machine.paths[1] / MARK).unlink()
    machine.boots(2)
    assert await machine.runs() == {("t", 1)}


@pytest.mark.parametrize("content", [None, "", "nothing", '{"boot_id":7}', "\ud800"])
async def test_who_does_not_know_suspects(machine: Machine, content: str | None) -> None:
    """Kafka had the directory, or the file is damaged."""
    await machine.runs(clean=False)
    for path in machine.paths:
        file = path / boots.FILE
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content.encode(errors="surrogatepass"))
    assert await machine.runs() == {("t", 0), ("t", 1)}


async def test_a_disk_that_takes_no_note_keeps_nobody_from_serving(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(boots, "replace_file", full)
    assert await machine.runs(clean=False) == set()


async def test_the_kernel_has_a_boot_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(boots.VARIABLE, raising=False)
    known = boots.boot_id()
    assert known
    assert known == boots.boot_id()
    monkeypatch.setattr(boots, "BOOT_ID", Path("/nowhere"))
    assert boots.boot_id() == ""


async def test_a_directory_is_new_until_it_is_known_what_it_lacks(machine: Machine) -> None:
    async def starts(*, is_noted: bool) -> bool:
        """True if there is a new directory at a start; the process may end before it has looked."""
        async with LogManager.open(config(*machine.paths)) as logs:
            found = logs.has_new_directory()
            logs.directories.claim(1, "cluster")
            if is_noted:
                await logs.load(Settings(config(*machine.paths)))
                logs.note_suspects(())
            return found

    assert await starts(is_noted=False)
    assert await starts(is_noted=False)
    assert await starts(is_noted=True)
    assert not await starts(is_noted=True)
    shutil.rmtree(machine.paths[1])
    assert await starts(is_noted=True)
    assert not await starts(is_noted=True)


async def test_what_is_gone_stays_known(machine: Machine) -> None:
    """By the checkpoints first, which are written without it when a log is there again."""
    settings = Settings(config(*machine.paths))

    async def gone() -> set[PartitionKey]:
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            logs.note_suspects(logs.without_log)
            return set(logs.without_log)

    await machine.runs()
    assert await gone() == set()
    (folder,) = machine.paths[0].glob("t-*")
    key = ("t", int(folder.name[-1]))
    shutil.rmtree(folder)
    assert await gone() == {key}
    for path in machine.paths:
        for checkpoint in path.glob("*-checkpoint"):
            checkpoint.unlink()
    assert await gone() == {key}
    await machine.runs()
    assert await gone() == set()
