"""Configurations of pipelines: the message about a mistake names the key."""

from pathlib import Path

import pytest

from ottla.pipelines.frame import catalog, config
from ottla.pipelines.warehouse_load import Config

SOURCE = '[source]\ntopics = ["a"]\nbootstrap = "x:1"\n'
TABLE = '[table]\nlocation = "w"\n'


@pytest.mark.parametrize("name", catalog.PIPELINES)
def test_the_examples_are_valid(name: str) -> None:
    pipeline = catalog.find(name)
    config.parse(pipeline.EXAMPLE, pipeline.Config)
    assert catalog.purpose(name).endswith((".", ":")) or len(catalog.purpose(name)) > 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TABLE, "source is missing"),
        ("[source]\ntopics = 3\n" + TABLE, "source.topics: Expected `array`, got `int`"),
        ("[source]\ntopics = []\n" + TABLE, "source.topics: Expected `array` of length >= 1"),
        ('[source]\ntopics = ["a"]\n' + TABLE, "source: say where the records are: either bootstrap"),
        (SOURCE + TABLE + 'fromat = "delta"', "table.fromat: there is no such key; did you mean format?"),
        (SOURCE + TABLE + 'format = "orc"', "table.format: Invalid enum value 'orc'"),
        (SOURCE + TABLE + "[load]\nrecords_per_batch = 0", "load.records_per_batch: Expected `int` >= 1"),
        (SOURCE + TABLE + "[laod]\n", "laod: there is no such key; did you mean load?"),
        ("[source", "is no TOML"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(config.ConfigInvalid) as caught:
        config.parse(text, Config)
    assert str(caught.value).startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigInvalid, match=r"load.toml: No such file"):
        config.load(tmp_path / "load.toml", Config)


def test_an_unknown_pipeline() -> None:
    with pytest.raises(config.PipelineError, match=r"no pipeline 'warehouse-laod'; did you mean warehouse_load\?"):
        catalog.find("warehouse-laod")
