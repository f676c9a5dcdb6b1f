"""The kernel's side of FUSE as bytes, after include/uapi/linux/fuse.h, version 7.31. Little of it is needed.

Every request begins with: length u32, opcode u32, unique u64, inode u64, uid u32, gid u32, pid u32, padding u32.
Every answer begins with: length u32, negative errno i32, unique u64.
"""

import os
import struct
from enum import IntEnum
from typing import NamedTuple

MAJOR, MINOR = 7, 31
REQUEST = struct.Struct("<IIQQIIII")
ANSWER = struct.Struct("<IiQ")
WRITE_BYTES_MAX = 128 << 10
#: The kernel asks for a buffer with room for the largest write and its headers.
BUFFER_BYTES = WRITE_BYTES_MAX + 4096
#: The kernel is the only one who changes anything, so what it was told holds for ever.
VALID_S = 1 << 30
ASYNC_READ, BIG_WRITES = 1 << 0, 1 << 5
KEEP_CACHE = 1 << 1
SET_MODE, SET_SIZE, SET_ATIME, SET_MTIME = 1 << 0, 1 << 3, 1 << 4, 1 << 5


class Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


#: They have no answer.
SILENT = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})

# What follows the header of a request; names come last and end with a zero byte.
INIT_IN = struct.Struct("<IIII")  # major, minor, max_readahead, flags
MKNOD_IN = struct.Struct("<IIII")  # mode, rdev, umask, padding
MKDIR_IN = struct.Struct("<II")  # mode, umask
CREATE_IN = struct.Struct("<IIII")  # flags, mode, umask, open_flags
RENAME_IN = struct.Struct("<Q")  # new folder
RENAME2_IN = struct.Struct("<QII")  # new folder, flags, padding
READ_IN = struct.Struct("<QQIIQII")  # fh, offset, size, read_flags, lock_owner, flags, padding; a write's is the same
RELEASE_IN = struct.Struct("<Q16x")  # fh, flags, release_flags, lock_owner
# valid, padding, fh, size, lock_owner, atime, mtime, ctime, their nanoseconds, mode, unused, uid, gid, unused
SETATTR_IN = struct.Struct("<IIQQQQQQIIIIIIII")

# major, minor, max_readahead, flags, max_background, congestion_threshold, max_write, time_gran, the rest
INIT_OUT = struct.Struct("<IIIIHHII36x")
OPEN_OUT = struct.Struct("<QII")  # fh, open_flags, padding
WRITE_OUT = struct.Struct("<II")  # size, padding
# ino, size, blocks, atime, mtime, ctime, their nanoseconds, mode, nlink, uid, gid, rdev, blksize, flags
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
ENTRY_OUT = struct.Struct("<QQQQII")  # inode, generation, entry_valid, attr_valid, their nanoseconds
ATTR_OUT = struct.Struct("<QII")  # attr_valid, its nanoseconds, padding
DIRENT = struct.Struct("<QQII")  # ino, offset of the next, length of the name, type
STATFS_OUT = struct.Struct("<QQQQQIII28x")  # blocks, bfree, bavail, files, ffree, bsize, namelen, frsize


class Request(NamedTuple):
    op: int
    unique: int
    inode: int
    body: memoryview


def request(data: memoryview) -> Request:
    length, op, unique, inode, *_ = REQUEST.unpack_from(data)
    assert length == len(data)
    return Request(op, unique, inode, data[REQUEST.size :])


def answer(unique: int, body: bytes = b"", error: int = 0) -> bytes:
    return ANSWER.pack(ANSWER.size + len(body), -error, unique) + body


def names(body: memoryview, skipped: int = 0) -> list[bytes]:
    """The names after so many bytes."""
    return bytes(body[skipped:]).split(b"\0")[:-1]


def init(body: memoryview) -> bytes:
    major, minor, readahead, flags = INIT_IN.unpack_from(body)
    assert (major, minor) >= (MAJOR, MINOR), f"the kernel speaks FUSE {major}.{minor}"
    return INIT_OUT.pack(MAJOR, MINOR, readahead, flags & (ASYNC_READ | BIG_WRITES), 16, 12, WRITE_BYTES_MAX, 1)


def attributes(inode: int, mode: int, found: os.stat_result) -> bytes:
    times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
    whole, rest = zip(*(divmod(time, 10**9) for time in times), strict=True)
    return ATTRIBUTES.pack(
        inode, found.st_size, found.st_blocks, *whole, *rest, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0
    )


def entry(inode: int, described: bytes) -> bytes:
    return ENTRY_OUT.pack(inode, 0, VALID_S, VALID_S, 0, 0) + described


def described(attributes: bytes) -> bytes:
    return ATTR_OUT.pack(VALID_S, 0, 0) + attributes


def opened(handle: int = 0) -> bytes:
    return OPEN_OUT.pack(handle, KEEP_CACHE, 0)


def dirent(inode: int, following: int, name: bytes, mode: int) -> bytes:
    padding = -len(name) % 8
    return DIRENT.pack(inode, following, len(name), mode >> 12) + name + bytes(padding)
