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


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("audit", "span_s = 3600", "span_s = 1000", "span_s is 1000; it is a multiple of window_s, 600"),
        ("audit", "[tallies]", "[tally]", "tally: there is no such key; did you mean tallies?"),
        ("newsfeed_fanout", 'feeds = "feeds"', 'feeds = "celebrities"', "feeds and celebrities are both 'celebrities'"),
        (
            "newsfeed_fanout",
            'feeds = "feeds"',
            'feeds = "activity"',
            "source.topics has 'activity', which is written to",
        ),
        ("newsfeed_fanout", "followers_max = 1000", "followers_max = 0", "followers_max: Expected `int` >= 1"),
        ("mirror_transform", '"west"', '"east"', "source_name and target_name are both 'east'"),
        ("mirror_transform", "127.0.0.1:9093", "127.0.0.1:9092", "source and target are the same topics"),
        ("mirror_transform", "{topic}", "{topik}", "rename = '{topik}' gives '{topik}', which no topic can be called"),
        (
            "mirror_transform",
            'partitioning = "same"',
            'partitioning = "some"',
            "partitioning: Invalid enum value 'some'",
        ),
    ],
)
def test_mistakes_in_an_example(name: str, old: str, new: str, message: str) -> None:
    pipeline = catalog.find(name)
    assert old in pipeline.EXAMPLE
    with pytest.raises(config.ConfigInvalid) as caught:
        config.parse(pipeline.EXAMPLE.replace(old, new, 1), pipeline.Config)
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigInvalid, match=r"load.toml: No such file"):
        config.load(tmp_path / "load.toml", Config)


def test_an_unknown_pipeline() -> None:
    with pytest.raises(config.PipelineError, match=r"no pipeline 'warehouse-laod'; did you mean warehouse_load\?"):
        catalog.find("warehouse-laod")
