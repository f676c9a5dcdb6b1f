"""Frames out of a byte stream, without I/O.

Kafka puts a four-byte big-endian length before every request and response. Two kinds of frames arrive at a client:
small answers, many per read, and Fetch answers of megabytes. Asking the kernel for the length first would cost a
second system call per small answer; collecting reads and joining them would copy the large ones twice. So bytes are
read into one small staging area, from which whole small frames are cut; a frame that does not fit gets a buffer of
exactly its own size, and the rest of it is read straight into that buffer (`buffer` and `received`, for `recv_into`).
"""

from collections.abc import Iterator

from ottla.errors import RemoteProtocolError

LENGTH_BYTES = 4
STAGING_BYTES = 64 * 1024
# What a broker may send at once. Kafka's fetch.max.bytes is 50 MiB, plus the one batch that may exceed it.
FRAME_BYTES_MAX = 512 * 1024 * 1024


class FrameReader:
    """Cuts a stream into frames; gives each frame's bytes without its length.

    Either `feed(data)`, or `received(count)` after `count` bytes were put into `buffer()`; then iterate `frames()`.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = frame_bytes_max
        self._staging = bytearray(STAGING_BYTES)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._large_end = 0

    @property
    def is_amid(self) -> bool:
        """True while a part of a frame is here."""
        return self._large is not None or self._end > self._start

    def rest(self) -> bytes:
        """The bytes that came and are no whole frame, as far as they fit the staging area; after an error, those that
        are no frame.
        """
        return bytes(self._staging[self._start : self._end])

    def buffer(self) -> memoryview:
        """Where the next bytes belong. Never empty once `frames()` has been drained."""
        if self._large is not None:
            return memoryview(self._large)[self._large_end :]
        return memoryview(self._staging)[self._end :]

    def received(self, count: int) -> None:
        """`count` bytes were written at the start of `buffer()`."""
        if self._large is not None:
            self._large_end += count
        else:
            self._end += count

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """Takes any amount of bytes and gives the frames that they complete."""
        rest = memoryview(data)
        while rest:
            room = self.buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.received(count)
            rest = rest[count:]
            yield from self.frames()

    def frames(self) -> Iterator[memoryview]:
        """The frames that are complete by now. Each owns its memory.

        Raises:
            RemoteProtocolError: a length is negative or over the limit; the stream cannot be read further.
        """
        if self._large is not None:
            if self._large_end < len(self._large):
                return
            frame, self._large = memoryview(self._large), None
            yield frame
        while self._end - self._start >= LENGTH_BYTES:
            body = self._start + LENGTH_BYTES
            length = int.from_bytes(self._staging[self._start : body], "big", signed=True)
            if not 0 <= length <= self.bytes_max:
                raise RemoteProtocolError(f"a frame of {length} bytes; the limit is {self.bytes_max}")
            here = self._end - body
            if length <= here:
                self._start = body + length
                yield memoryview(self._staging[body : self._start])
            elif LENGTH_BYTES + length <= STAGING_BYTES:
                break
            else:
                self._large = bytearray(length)
                self._large[:here] = self._staging[body : self._end]
                self._large_end = here
                self._start = self._end
        if self._start:
            rest = self._staging[self._start : self._end]
            self._staging[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
