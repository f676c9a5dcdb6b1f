"""Files and folders, each as it is now and as it will be after a power loss.

What is promised by POSIX is kept and nothing else: a file's bytes survive when the file was synced after they were
written, and a name in a folder (made, renamed, removed) when that folder was synced after. With `journal`, as on ext4
and XFS, whatever is synced takes all names with it, but no other file's bytes.

Present bytes are kept in one real file per inode, synced bytes in another, so that holes stay holes. An inode is never
given away again: a file that lost its name may be open, and a folder may still have it after a power loss.
"""

import errno
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

ROOT = 1
CHUNK = 1 << 20


@dataclass
class Inode:
    """`mode` as in `stat`, with the type. Of a folder, `names` and `synced_names` lead to inodes.

    Of a file, `dirty` are the ranges that were written since the last sync, and `cut_to` is the smallest size that it
    had since: what the synced bytes hold behind it is not to come back when the file grows again.
    """

    number: int
    mode: int
    names: dict[bytes, int] = field(default_factory=dict)
    synced_names: dict[bytes, int] = field(default_factory=dict)
    dirty: list[tuple[int, int]] = field(default_factory=list)
    cut_to: int | None = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Volume:
    """Begins with what is in `image`, all of it synced. `work` is a folder for its own files, made anew.

    Errors are OSError with the number that the caller is told.
    """

    def __init__(self, image: Path, work: Path, *, journal: bool) -> None:
        self.journal = journal
        self._work = work
        shutil.rmtree(work, ignore_errors=True)
        for name in ("now", "synced"):
            (work / name).mkdir(parents=True)
        self._inodes: dict[int, Inode] = {}
        self._load(image, self._new(stat.S_IFDIR | 0o755))

    def __getitem__(self, number: int) -> Inode:
        return self._inodes[number]

    def _new(self, mode: int) -> Inode:
        inode = Inode(len(self._inodes) + ROOT, mode)
        self._inodes[inode.number] = inode
        if not inode.is_folder:
            for path in (self.now(inode.number), self._synced(inode.number)):
                path.touch()
        return inode

    def now(self, number: int) -> Path:
        """The real file with the present bytes."""
        return self._work / "now" / str(number)

    def _synced(self, number: int) -> Path:
        return self._work / "synced" / str(number)

    def _load(self, image: Path, folder: Inode) -> None:
        for path in image.iterdir():
            inode = self._new(path.stat().st_mode)
            if inode.is_folder:
                self._load(path, inode)
            else:
                copy(path, self.now(inode.number))
                copy(path, self._synced(inode.number))
            folder.names[os.fsencode(path.name)] = inode.number
        folder.synced_names = dict(folder.names)

    # Names.

    def lookup(self, folder: int, name: bytes) -> Inode:
        if name not in self[folder].names:
            raise OSError(errno.ENOENT, "no such name")
        return self[self[folder].names[name]]

    def make(self, folder: int, name: bytes, mode: int) -> Inode:
        if name in self[folder].names:
            raise OSError(errno.EEXIST, "it is there")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EPERM, "files and folders only")
        inode = self._new(mode)
        self[folder].names[name] = inode.number
        return inode

    def remove(self, folder: int, name: bytes, *, is_folder: bool) -> None:
        inode = self.lookup(folder, name)
        self._may_go(inode, is_folder)
        del self[folder].names[name]

    def rename(self, folder: int, name: bytes, new_folder: int, new_name: bytes) -> None:
        inode = self.lookup(folder, name)
        target = self[new_folder].names.get(new_name)
        if target == inode.number:
            return
        if target is not None:
            self._may_go(self[target], inode.is_folder)
        del self[folder].names[name]
        self[new_folder].names[new_name] = inode.number

    @staticmethod
    def _may_go(inode: Inode, is_folder: bool) -> None:
        if inode.is_folder and not is_folder:
            raise OSError(errno.EISDIR, "a folder")
        if is_folder and not inode.is_folder:
            raise OSError(errno.ENOTDIR, "no folder")
        if inode.names:
            raise OSError(errno.ENOTEMPTY, "names are in it")

    # Bytes.

    def stat(self, number: int) -> os.stat_result:
        return os.stat(self._work if self[number].is_folder else self.now(number))

    def read(self, number: int, offset: int, size: int) -> bytes:
        with opened(self.now(number), os.O_RDONLY) as file:
            return os.pread(file, size, offset)

    def write(self, number: int, offset: int, data: bytes | memoryview) -> None:
        with opened(self.now(number), os.O_WRONLY) as file:
            assert os.pwrite(file, data, offset) == len(data)
        dirty = self[number].dirty
        if dirty and dirty[-1][1] == offset:
            dirty[-1] = (dirty[-1][0], offset + len(data))
        else:
            dirty.append((offset, offset + len(data)))

    def resize(self, number: int, size: int) -> None:
        inode = self[number]
        before = self.stat(number).st_size
        os.truncate(self.now(number), size)
        if size < before:
            inode.cut_to = size if inode.cut_to is None else min(size, inode.cut_to)

    # What survives.

    def sync_file(self, number: int) -> None:
        inode = self[number]
        size = self.stat(number).st_size
        if inode.cut_to is not None:
            os.truncate(self._synced(number), inode.cut_to)
        os.truncate(self._synced(number), size)
        with opened(self.now(number), os.O_RDONLY) as source, opened(self._synced(number), os.O_WRONLY) as target:
            for begin, end in inode.dirty:
                transfer(source, target, begin, min(end, size))
        inode.dirty.clear()
        inode.cut_to = None
        if self.journal:
            self.sync_names()

    def sync_folder(self, number: int) -> None:
        if self.journal:
            self.sync_names()
        else:
            self[number].synced_names = dict(self[number].names)

    def sync_names(self) -> None:
        for inode in self._inodes.values():
            if inode.synced_names != inode.names:
                inode.synced_names = dict(inode.names)

    def unsynced(self) -> tuple[int, int]:
        """How many bytes were written and names changed that a power loss undoes now. What was written twice counts
        twice.
        """
        written = sum(end - begin for inode in self._inodes.values() for begin, end in inode.dirty)
        changed = sum(len(inode.names.items() ^ inode.synced_names.items()) for inode in self._inodes.values())
        return written, changed

    def save(self, image: Path) -> None:
        """Writes what survives into the folder `image`, which must not be there."""
        self._save(self[ROOT], image)

    def _save(self, folder: Inode, path: Path) -> None:
        path.mkdir()
        for name, number in folder.synced_names.items():
            inode, target = self[number], path / os.fsdecode(name)
            if inode.is_folder:
                self._save(inode, target)
            else:
                copy(self._synced(number), target)
            os.chmod(target, stat.S_IMODE(inode.mode))


class opened:
    """A file descriptor for a `with` block."""

    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = os.open(path, flags, 0o644)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)


def copy(source: Path, target: Path) -> None:
    """Into a new file, with its holes: Kafka's index files are ten megabytes of them."""
    with opened(source, os.O_RDONLY) as reader, opened(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as writer:
        size = os.fstat(reader).st_size
        os.truncate(writer, size)
        end = 0
        while end < size:
            try:
                begin = os.lseek(reader, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole to the end
                    return
                raise
            end = os.lseek(reader, begin, os.SEEK_HOLE)
            transfer(reader, writer, begin, end)


def transfer(reader: int, writer: int, begin: int, end: int) -> None:
    """The bytes of a range, as many as there are."""
    position = begin
    while position < end and (data := os.pread(reader, min(CHUNK, end - position), position)):
        position += os.pwrite(writer, data, position)
