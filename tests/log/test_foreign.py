"""Files of other programs under a segment's name: nothing is cut off them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import StorageError
from ottla.log import Log
from ottla.log.foreign import foreign_file
from tests.support.foreign_files import FOREIGN, TORN, folder_with


@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_is_changed(tmp_path: Path, name: str) -> None:
    folder, file = folder_with(tmp_path, FOREIGN[name])
    with pytest.raises(StorageError) as caught:
        Log.open(folder, mode="a")
    shown = FOREIGN[name][:8].hex(" ")
    assert str(caught.value) == (
        f"{file} is no log: it has no batch, and begins with the bytes {shown}. Move it out of the folder if it is "
        "another program's; nothing was changed"
    )
    assert file.read_bytes() == FOREIGN[name]
    assert list(folder.iterdir()) == [file]


@pytest.mark.parametrize("name", TORN)
def test_what_a_crash_leaves_is_repaired(tmp_path: Path, name: str) -> None:
    folder, _ = folder_with(tmp_path, TORN[name])
    with Log.open(folder, mode="a") as log:
        assert log.append("first") == 0


def test_a_log_whose_beginning_is_damaged_is_a_log(tmp_path: Path) -> None:
    folder, file = folder_with(tmp_path, FOREIGN["text"])
    with Log.open(tmp_path / "others-0", mode="a") as log:
        log.append("one")
    (folder / f"{7:020}.log").write_bytes((tmp_path / "others-0" / file.name).read_bytes())
    assert foreign_file(folder) is None
