"""The forgetful disk behaves as any other until its power is lost, and then keeps what was synced and nothing else."""

import contextlib
import errno
import mmap
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.forgetful import ForgetfulDisk, Lost
from tests.faults.broker import settings
from tests.support.waiting import eventually

STEPS = 1500


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    """Names survive only in folders that were synced."""
    with ForgetfulDisk(tmp_path / "disk") as mounted:
        yield mounted


def put(path: Path, data: bytes, *, sync: bool = False) -> None:
    with path.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


# The contract: what this disk does and a real one.


class Both:
    """The same calls on two folders, whose answers and contents must be the same."""

    def __init__(self, one: Path, other: Path, chance: random.Random) -> None:
        self.roots = (one, other)
        self.chance = chance
        self.counts: dict[str, int] = {}

    def step(self) -> None:
        kinds: list[Callable[[], Callable[[Path], object]]] = [
            self.write, self.write, self.write, self.truncate, self.remove, self.rename, self.folder, self.mapped,
            self.unlinked, self.exclusive, self.sync,
        ]  # fmt: skip
        chosen = self.chance.choice(kinds)
        call = chosen()
        first, second = (self.answer(call, root) for root in self.roots)
        assert first == second, f"{chosen.__name__}: {first} and {second}"
        self.counts[chosen.__name__] = self.counts.get(chosen.__name__, 0) + (not isinstance(first, int))

    @staticmethod
    def answer(call: Callable[[Path], object], root: Path) -> object:
        """The result of the call; of an error, its number."""
        try:
            return str(call(root))
        except OSError as error:
            return error.errno

    def path(self) -> str:
        """Few names, so that they meet."""
        return "/".join(self.chance.choices("abc", k=self.chance.randrange(1, 3)))

    def data(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([0, 1, 100, 5000, 200_000]))

    def write(self) -> Callable[[Path], object]:
        name, data, offset, append = self.path(), self.data(), self.chance.randrange(10_000), self.chance.random() < 0.3

        def call(root: Path) -> object:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)
            file = os.open(root / name, flags, 0o644)
            try:
                os.lseek(file, offset, os.SEEK_SET)
                return os.write(file, data), os.fstat(file).st_size
            finally:
                os.close(file)

        return call

    def truncate(self) -> Callable[[Path], object]:
        name, size = self.path(), self.chance.randrange(20_000)
        return lambda root: os.truncate(root / name, size)

    def remove(self) -> Callable[[Path], object]:
        name, kind = self.path(), self.chance.choice([os.unlink, os.rmdir])
        return lambda root: kind(root / name)

    def rename(self) -> Callable[[Path], object]:
        name, other = self.path(), self.path()
        return lambda root: os.rename(root / name, root / other)

    def folder(self) -> Callable[[Path], object]:
        name = self.path()
        return lambda root: os.mkdir(root / name)

    def mapped(self) -> Callable[[Path], object]:
        """A byte through a shared mapping."""
        name, value, where = self.path(), self.chance.randrange(256), self.chance.random()

        def call(root: Path) -> object:
            with (root / name).open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                if size:
                    with mmap.mmap(file.fileno(), size) as view:
                        view[int(where * size)] = value
                return size

        return call

    def unlinked(self) -> Callable[[Path], object]:
        """An open file is there without its name."""
        name, data = self.path(), self.data()

        def call(root: Path) -> object:
            with (root / name).open("r+b") as file:
                os.unlink(root / name)
                file.write(data)
                file.seek(0)
                return hash(file.read())

        return call

    def exclusive(self) -> Callable[[Path], object]:
        name = self.path()
        return lambda root: os.close(os.open(root / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def sync(self) -> Callable[[Path], object]:
        name = self.path()

        def call(root: Path) -> None:
            file = os.open(root / name, os.O_RDONLY)
            os.fsync(file)
            os.close(file)

        return call

    def compare(self) -> None:
        first, second = (contents(root) for root in self.roots)
        assert first == second


def contents(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """The mode and the bytes under each name."""
    found: dict[str, tuple[int, bytes | None]] = {}
    for path in root.rglob("*"):
        status = path.stat()
        data = None if path.is_dir() else path.read_bytes()
        assert data is None or status.st_size == len(data)
        found[str(path.relative_to(root))] = (status.st_mode, data)
    return found


def test_it_is_as_any_disk(disk: ForgetfulDisk, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    both = Both(disk.path, real, random.Random(settings.seed()))
    for number in range(STEPS):
        both.step()
        if number % 50 == 0:
            both.compare()
    both.compare()
    assert min(both.counts.values()) > 0, both.counts


def test_what_is_synced_is_as_on_any_disk(tmp_path: Path) -> None:
    """After everything was synced a loss loses nothing, again and again."""
    real = tmp_path / "real"
    real.mkdir()
    with ForgetfulDisk(tmp_path / "disk") as disk:
        both = Both(disk.path, real, random.Random(settings.seed()))
        for _ in range(5):
            for _ in range(100):
                both.step()
            for path in [disk.path, *disk.path.rglob("*")]:
                sync_folder(path)
            disk.lose_power()
            both.compare()


def test_many_names_are_listed(disk: ForgetfulDisk) -> None:
    """More than the kernel asks for at once; also while they are removed."""
    names = {f"name-{number:04}" * 5 for number in range(2000)}
    for name in names:
        (disk.path / name).touch()
    assert set(os.listdir(disk.path)) == names
    with os.scandir(disk.path) as rows:
        for row in rows:
            os.unlink(row)
    assert os.listdir(disk.path) == []
    (disk.path / "deep" / "er").mkdir(parents=True)
    shutil.rmtree(disk.path / "deep")


def test_what_is_not_served_says_so(disk: ForgetfulDisk) -> None:
    put(disk.path / "a", b"1")
    with pytest.raises(PermissionError):
        os.mkfifo(disk.path / "fifo")
    with pytest.raises(OSError, match=r".*") as raised:
        os.link(disk.path / "a", disk.path / "b")
    assert raised.value.errno in (errno.EPERM, errno.ENOSYS)
    assert os.statvfs(disk.path).f_bavail > 0


# What a power loss leaves.


def test_bytes_survive_if_they_were_synced(disk: ForgetfulDisk) -> None:
    path = disk.path / "log"
    with path.open("wb", buffering=0) as file:
        file.write(b"synced ")
        os.fsync(file.fileno())
        sync_folder(disk.path)
        file.write(b"not")
    (disk.path / "other").touch()
    assert disk.lose_power() == Lost(bytes=3, names=1)
    assert path.read_bytes() == b"synced "
    assert disk.lose_power() == Lost(bytes=0, names=0)


def test_bytes_behind_a_cut_do_not_come_back(disk: ForgetfulDisk) -> None:
    path = disk.path / "log"
    put(path, b"0123456789", sync=True)
    sync_folder(disk.path)
    os.truncate(path, 4)
    with path.open("r+b", buffering=0) as file:
        file.seek(8)
        file.write(b"89")
        os.fsync(file.fileno())
    disk.lose_power()
    assert path.read_bytes() == b"0123\0\0\0\089"


def test_a_cut_that_was_not_synced_is_forgotten(disk: ForgetfulDisk) -> None:
    path = disk.path / "log"
    put(path, b"0123456789", sync=True)
    sync_folder(disk.path)
    os.truncate(path, 4)
    disk.lose_power()
    assert path.read_bytes() == b"0123456789"


def test_a_mapping_survives_if_it_was_synced(disk: ForgetfulDisk) -> None:
    path = disk.path / "index"
    put(path, bytes(10_000), sync=True)
    sync_folder(disk.path)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 10_000) as view:
        view[5000] = 1
        view.flush()
        view[9000] = 1
    disk.lose_power()
    assert path.read_bytes() == bytes(5000) + b"\1" + bytes(4999)


def test_names_survive_if_their_folder_was_synced(disk: ForgetfulDisk) -> None:
    put(disk.path / "old", b"old", sync=True)
    put(disk.path / "gone", b"gone", sync=True)
    sync_folder(disk.path)
    put(disk.path / "new", b"new", sync=True)
    os.rename(disk.path / "new", disk.path / "old")
    os.unlink(disk.path / "gone")
    put(disk.path / "fresh", b"fresh", sync=True)
    disk.lose_power()
    assert contents(disk.path).keys() == {"old", "gone"}
    assert (disk.path / "old").read_bytes() == b"old"
    put(disk.path / "new", b"new", sync=True)
    os.rename(disk.path / "new", disk.path / "old")
    sync_folder(disk.path)
    disk.lose_power()
    assert (disk.path / "old").read_bytes() == b"new"


def test_a_name_without_its_bytes(disk: ForgetfulDisk) -> None:
    """The file that replaced another was not synced: there is neither the old nor the new content."""
    put(disk.path / "old", b"old", sync=True)
    sync_folder(disk.path)
    put(disk.path / "new", b"new")
    os.rename(disk.path / "new", disk.path / "old")
    sync_folder(disk.path)
    disk.lose_power()
    assert (disk.path / "old").read_bytes() == b""


def test_a_folder_survives_with_its_parent(disk: ForgetfulDisk) -> None:
    (disk.path / "a" / "b").mkdir(parents=True)
    sync_folder(disk.path / "a")
    disk.lose_power()
    assert contents(disk.path) == {}
    (disk.path / "a" / "b").mkdir(parents=True)
    sync_folder(disk.path / "a")
    sync_folder(disk.path)
    disk.lose_power()
    assert contents(disk.path).keys() == {"a", "a/b"}


def test_with_a_journal_names_come_with_any_sync(tmp_path: Path) -> None:
    with ForgetfulDisk(tmp_path / "disk", journal=True) as disk:
        put(disk.path / "one", b"one")
        put(disk.path / "other", b"other", sync=True)
        put(disk.path / "late", b"late")
        disk.lose_power()
        assert {name: data for name, (_, data) in contents(disk.path).items()} == {"one": b"", "other": b"other"}


def test_what_came_back_stays(disk: ForgetfulDisk) -> None:
    """A second loss, with no sync between, changes nothing."""
    put(disk.path / "log", b"synced", sync=True)
    sync_folder(disk.path)
    disk.lose_power()
    disk.lose_power()
    assert (disk.path / "log").read_bytes() == b"synced"


# Nothing is left behind.


def mounted(path: Path) -> bool:
    return str(path) in Path("/proc/mounts").read_text()


def test_it_is_unmounted_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ForgetfulDisk(tmp_path / "disk"):
        print(1 / mounted(tmp_path / "other"))
    assert not mounted(tmp_path)


def test_it_is_unmounted_when_its_user_is_killed(tmp_path: Path, disk: ForgetfulDisk) -> None:
    """The fixture skips where nothing can be mounted."""
    code = f"""
import os, signal
from pathlib import Path
from tests.cluster.forgetful import ForgetfulDisk
disk = ForgetfulDisk(Path({str(tmp_path / "other")!r}))
print("mounted", disk._server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    with done:
        assert done.stdout is not None
        said, server = done.stdout.readline().split()
    assert said == b"mounted"
    with contextlib.suppress(ChildProcessError):
        os.waitpid(int(server), 0)
    eventually("it is unmounted", lambda: not mounted(tmp_path / "other"))
