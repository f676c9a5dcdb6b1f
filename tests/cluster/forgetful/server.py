"""The process that serves a volume: `python -m tests.cluster.forgetful.server MOUNT IMAGE WORK journal|names`.

It mounts itself at MOUNT, says `ready`, and serves until its input says `lose`: then nothing more is written, IMAGE is
replaced by what survives, and it says `lost BYTES NAMES` and ends. When its input ends, its user may be gone, so it
unmounts itself. A process of its own serves, because whoever uses the mounted files waits for the server.
"""

import ctypes
import errno
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cluster.forgetful import protocol
from tests.cluster.forgetful.protocol import SILENT, Op, Request
from tests.cluster.forgetful.volume import Inode, Volume

_LIBC = ctypes.CDLL(None, use_errno=True)
_NOSUID, _NODEV, _DETACH = 2, 4, 2


def mount(path: Path) -> int:
    """The descriptor that the kernel's requests come from."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={descriptor},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    _call(
        "mount",
        _LIBC.mount(b"forgetful", os.fsencode(path), b"fuse.forgetful", _NOSUID | _NODEV, options.encode()),
    )
    return descriptor


def unmount(path: Path) -> None:
    _call("umount", _LIBC.umount2(os.fsencode(path), _DETACH))


def _call(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class Server:
    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._listed: dict[int, list[bytes]] = {}
        self._opened = 0
        self._handlers: dict[int, Callable[[Request], bytes]] = {
            Op.INIT: lambda asked: protocol.init(asked.body),
            Op.LOOKUP: lambda asked: self._entry(volume.lookup(asked.inode, *protocol.names(asked.body))),
            Op.GETATTR: lambda asked: protocol.described(self._attributes(volume[asked.inode])),
            Op.SETATTR: self._set,
            Op.MKNOD: lambda asked: self._entry(self._made(asked, protocol.MKNOD_IN.size)),
            Op.MKDIR: self._make_folder,
            Op.CREATE: self._create,
            Op.UNLINK: lambda asked: self._remove(asked, is_folder=False),
            Op.RMDIR: lambda asked: self._remove(asked, is_folder=True),
            Op.RENAME: lambda asked: self._rename(asked, protocol.RENAME_IN.size),
            Op.RENAME2: self._rename2,
            Op.OPEN: lambda asked: protocol.opened(),
            Op.OPENDIR: self._open_folder,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.READDIR: self._list,
            Op.STATFS: self._space,
            Op.FSYNC: self._sync,
            Op.FSYNCDIR: self._sync,
            Op.FLUSH: lambda asked: b"",
            Op.RELEASE: lambda asked: b"",
            Op.RELEASEDIR: self._close_folder,
            Op.DESTROY: lambda asked: b"",
        }

    def answer(self, asked: Request) -> bytes | None:
        """None where the kernel waits for nothing. What is not served is refused for good by ENOSYS."""
        if asked.op in SILENT:
            return None
        handler = self._handlers.get(asked.op)
        if handler is None:
            return protocol.answer(asked.unique, error=errno.ENOSYS)
        try:
            return protocol.answer(asked.unique, handler(asked))
        except OSError as error:
            return protocol.answer(asked.unique, error=error.errno or errno.EIO)

    def _attributes(self, inode: Inode) -> bytes:
        return protocol.attributes(inode.number, inode.mode, self._volume.stat(inode.number))

    def _entry(self, inode: Inode) -> bytes:
        return protocol.entry(inode.number, self._attributes(inode))

    def _made(self, asked: Request, skipped: int) -> Inode:
        """A file; the mode of both requests stands where `mknod` has it first and `create` second."""
        place = 0 if asked.op == Op.MKNOD else 4
        mode = int.from_bytes(asked.body[place : place + 4], "little")
        (name,) = protocol.names(asked.body, skipped)
        return self._volume.make(asked.inode, name, mode)

    def _make_folder(self, asked: Request) -> bytes:
        mode, _ = protocol.MKDIR_IN.unpack_from(asked.body)
        (name,) = protocol.names(asked.body, protocol.MKDIR_IN.size)
        return self._entry(self._volume.make(asked.inode, name, stat.S_IFDIR | mode))

    def _create(self, asked: Request) -> bytes:
        return self._entry(self._made(asked, protocol.CREATE_IN.size)) + protocol.opened()

    def _remove(self, asked: Request, *, is_folder: bool) -> bytes:
        self._volume.remove(asked.inode, *protocol.names(asked.body), is_folder=is_folder)
        return b""

    def _rename(self, asked: Request, skipped: int) -> bytes:
        (folder,) = protocol.RENAME_IN.unpack_from(asked.body)
        name, new_name = protocol.names(asked.body, skipped)
        self._volume.rename(asked.inode, name, folder, new_name)
        return b""

    def _rename2(self, asked: Request) -> bytes:
        _, flags, _ = protocol.RENAME2_IN.unpack_from(asked.body)
        if flags:
            raise OSError(errno.EINVAL, "no flags of rename")
        return self._rename(asked, protocol.RENAME2_IN.size)

    def _set(self, asked: Request) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, *_ = protocol.SETATTR_IN.unpack_from(
            asked.body
        )
        inode = self._volume[asked.inode]
        if valid & protocol.SET_SIZE:
            self._volume.resize(inode.number, size)
        if valid & protocol.SET_MODE:
            inode.mode = mode
        if valid & protocol.SET_MTIME and not inode.is_folder:
            before = self._volume.stat(inode.number)
            accessed = atime * 10**9 + atime_ns if valid & protocol.SET_ATIME else before.st_atime_ns
            os.utime(self._volume.now(inode.number), ns=(accessed, mtime * 10**9 + mtime_ns))
        return protocol.described(self._attributes(inode))

    def _read(self, asked: Request) -> bytes:
        _, offset, size, *_ = protocol.READ_IN.unpack_from(asked.body)
        return self._volume.read(asked.inode, offset, size)

    def _write(self, asked: Request) -> bytes:
        _, offset, size, *_ = protocol.READ_IN.unpack_from(asked.body)
        data = asked.body[protocol.READ_IN.size :]
        assert len(data) == size
        self._volume.write(asked.inode, offset, data)
        return protocol.WRITE_OUT.pack(size, 0)

    def _open_folder(self, asked: Request) -> bytes:
        """Opens a folder. Its list is the one of this moment, so that no change moves the places of a reader."""
        self._opened += 1
        self._listed[self._opened] = [
            protocol.dirent(number, place, name, self._volume[number].mode)
            for place, (name, number) in enumerate(self._volume[asked.inode].names.items(), 1)
        ]
        return protocol.opened(self._opened)

    def _list(self, asked: Request) -> bytes:
        """From the place that is asked for, as many as fit."""
        handle, offset, size, *_ = protocol.READ_IN.unpack_from(asked.body)
        rows = b""
        for row in self._listed[handle][offset:]:
            if len(rows) + len(row) > size:
                break
            rows += row
        return rows

    def _close_folder(self, asked: Request) -> bytes:
        (handle,) = protocol.RELEASE_IN.unpack_from(asked.body)
        del self._listed[handle]
        return b""

    def _sync(self, asked: Request) -> bytes:
        if asked.op == Op.FSYNC:
            self._volume.sync_file(asked.inode)
        else:
            self._volume.sync_folder(asked.inode)
        return b""

    def _space(self, asked: Request) -> bytes:
        found = os.statvfs(self._volume.now(0).parent)
        return protocol.STATFS_OUT.pack(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            found.f_bsize,
            255,
            found.f_frsize,
        )


def serve(descriptor: int, server: Server) -> str:
    """Until the input says something; that line, or nothing where the input ended or the volume was unmounted."""
    buffer = bytearray(protocol.BUFFER_BYTES)
    view = memoryview(buffer)
    while True:
        ready, _, _ = select.select([descriptor, sys.stdin], [], [])
        if sys.stdin in ready:
            return sys.stdin.readline().strip()
        try:
            length = os.readv(descriptor, [buffer])
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return ""
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # a request that was interrupted
                continue
            raise
        if (said := server.answer(protocol.request(view[:length]))) is not None:
            try:
                os.write(descriptor, said)
            except OSError as error:
                if error.errno != errno.ENOENT:  # its asker was killed
                    raise


def main(place: str, image: str, work: str, kind: str) -> None:
    path = Path(place)
    volume = Volume(Path(image), Path(work), journal=kind == "journal")
    descriptor = mount(path)
    try:
        print("ready", flush=True)
        if serve(descriptor, Server(volume)) == "lose":
            shutil.rmtree(image)
            volume.save(Path(image))
            print("lost", *volume.unsynced(), flush=True)
    finally:
        try:
            unmount(path)
        except OSError as error:
            if error.errno != errno.EINVAL:  # somebody else did
                raise
        os.close(descriptor)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
