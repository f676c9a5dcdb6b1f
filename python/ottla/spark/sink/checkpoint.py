"""The plan of a batch that Spark wrote down before it ran it, in the checkpoint of the query.

The file `offsets/N` of batch N has where each source is to be read to, and when the batch was planned. It is written
once: a batch that is repeated after a crash has the same file, one that was planned anew has another.
"""

from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

FILE_SCHEMES = ("", "file")
DIGITS = 32


def plan_of(checkpoint: str | None, batch_id: int) -> str | None:
    """A digest of a batch's plan: equal if the plan is equal. None where the driver sees no such file: the query names
    no checkpoint, or one in a store that is no file system.
    """
    if checkpoint is None:
        return None
    place = urlsplit(checkpoint)
    if place.scheme not in FILE_SCHEMES:
        return None
    folder = Path(unquote(place.path) if place.scheme else checkpoint)
    try:
        return sha256((folder / "offsets" / str(batch_id)).read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return None
