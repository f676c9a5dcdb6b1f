"""One bit flips in meta.properties: the directory is still this broker's, or the broker says what is wrong with it."""

from pathlib import Path

from ottla.config import ConfigError
from ottla.replication.data_directory import META, DataDirectory

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def test_any_bit_of_it(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.claim(7, CLUSTER)
    path = tmp_path / META
    whole = path.read_bytes()
    refused = 0
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        problem = ""
        try:
            directory.claim(7, CLUSTER)
        except ConfigError as error:
            problem = str(error)
        if problem:
            assert str(path) in problem
            refused += 1
            # Nothing is written over what somebody has to look at.
            assert path.read_bytes() == damaged
            continue
        identity = directory.identity()
        assert (identity["version"], identity["broker.id"], identity["cluster.id"]) == ("0", "7", CLUSTER)
    assert refused > len(whole)
