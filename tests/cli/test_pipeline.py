"""`ottla generate` and `ottla pipeline`, without Spark: what they write, and what they say of mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.frame.catalog import PIPELINES
from tests.cli.conftest import Ottla
from tests.support.waiting import PATIENCE_S


def test_activity_into_a_file_with_its_answers(ottla: Ottla, tmp_path: Path) -> None:
    file, answers = tmp_path / "activity.jsonl", tmp_path / "answers.json"
    said = ottla("generate", "--file", str(file), "-n", "1000", "--seed", "3", "--answers", str(answers))
    assert f"generated 1,000 events into {file}" in said.err
    events = [json.loads(line) for line in file.read_text().splitlines()]
    truth = json.loads(answers.read_text())
    assert truth["records"] == len(events) == 1000
    assert truth["events"] == len({event["id"] for event in events})


@pytest.mark.parametrize("arguments", [(), ("topic", "--file", "x")])
def test_where_to(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    assert "say where to: either TOPIC or --file FILE" in ottla("generate", *arguments, code=2).err


def test_activity_into_a_topic(ottla: Ottla, bootstrap: str) -> None:
    ottla("generate", "generated", "-n", "500", "-b", bootstrap)
    values = ottla("consume", "generated", "-b", bootstrap, "--from-beginning", "--until-end").out
    assert len({json.loads(line)["id"] for line in values.splitlines()}) == 495


def test_pipelines_are_listed(ottla: Ottla) -> None:
    said = ottla("pipeline", "list").out
    assert all(name in said for name in PIPELINES)


def test_an_example_is_where_a_configuration_begins(ottla: Ottla) -> None:
    assert "[source]" in ottla("pipeline", "example", "warehouse-load").out


@pytest.mark.parametrize("package", ["pyarrow", "pyspark"])
def test_a_package_that_is_missing_is_named(tmp_path: Path, package: str) -> None:
    file = tmp_path / "load.toml"
    file.write_text(f'[source]\npath = "{tmp_path}"\ntopics = ["t"]\n[table]\nlocation = "{tmp_path / "table"}"\n')
    code = f"import sys; sys.modules['{package}'] = None; from ottla.cli.main import main; main()"
    command = [sys.executable, "-c", code, "pipeline", "run", "warehouse_load", "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: this needs the package {package}")
    assert len(done.stderr.splitlines()) == 1


def test_a_mistake_is_said_before_spark_starts(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "load.toml"
    file.write_text('[source]\ntopics = ["a"]\nbootstrp = "x:1"\n')
    said = ottla("pipeline", "run", "warehouse_load", "-c", str(file), code=1).err
    assert said == f"Error: {file}: source.bootstrp: there is no such key; did you mean bootstrap?\n"
    assert "no pipeline 'nothing'" in ottla("pipeline", "run", "nothing", "-c", str(file), code=1).err


def test_what_is_not_there_is_said_before_spark_starts(
    ottla: Ottla, tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Java: it would be asked for first."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def run(name: str, text: str) -> str:
        file = tmp_path / "pipeline.toml"
        file.write_text(text)
        return ottla("pipeline", "run", name, "-c", str(file), code=1).err

    target = f'[table]\nlocation = "{tmp_path / "table"}"\nformat = "parket"\n'
    source = f'[source]\nbootstrap = "{bootstrap}"\ntopics = ["loadd"]\n'
    said = run("warehouse_load", source + target)
    assert "table.format: Invalid enum value 'parket'; it is one of parquet, delta, iceberg" in said
    ottla("topic", "create", "loaded", "-b", bootstrap)
    said = run("warehouse_load", source + target.replace("parket", "parquet"))
    assert f"source.topics: there is no topic 'loadd' at {bootstrap}; did you mean loaded?" in said
    gone = source.replace(bootstrap, "127.0.0.1:1") + target.replace("parket", "parquet")
    assert "source.bootstrap: cannot reach 127.0.0.1:1" in run("warehouse_load", gone)
    said = run("warehouse_load", source.replace("loadd", "loaded") + target.replace("parket", "parquet"))
    assert "Spark needs Java 17" in said
    folder = f'[source]\npath = "{tmp_path / "nowhere"}"\ntopics = ["t"]\n' + target.replace("parket", "parquet")
    assert "source.path: there is no folder" in run("warehouse_load", folder)


def test_what_is_written_to_is_asked_before_spark_starts_too(ottla: Ottla, tmp_path: Path, bootstrap: str) -> None:
    ottla("topic", "create", "there", "-b", bootstrap)
    source = f'[source]\nbootstrap = "{bootstrap}"\ntopics = ["there"]\n'
    stream = f'[stream]\ncheckpoint = "{tmp_path / "checkpoint"}"\n'
    gone = 'bootstrap = "127.0.0.1:1"\n'

    def run(name: str, text: str) -> str:
        file = tmp_path / "pipeline.toml"
        file.write_text(text)
        return ottla("pipeline", "run", name, "-c", str(file), code=1).err

    mirror = 'source_name = "east"\ntarget_name = "west"\n' + source + stream
    assert "target.bootstrap: cannot reach 127.0.0.1:1" in run("mirror_transform", f"{mirror}[target]\n{gone}")
    rates = f'table = "t"\n{source}{stream}[rates]\n{gone}topic = "rates"\n'
    assert "rates.bootstrap: cannot reach 127.0.0.1:1" in run("relevance_counts", rates)
    audit = f'table = "t"\n{source}[tallies]\nbootstrap = "{bootstrap}"\ntopics = ["their"]\n'
    assert f"tallies.topics: there is no topic 'their' at {bootstrap}" in run("audit", audit)
    audit = audit.replace("their", "there") + f'[warehouse]\nlocation = "{tmp_path / "none"}"\n'
    assert "warehouse.location: there is no table" in run("audit", audit)


@pytest.mark.parametrize(
    ("table", "option", "said"),
    [
        ("source", "startingOfsets", "unknown option 'startingofsets'; did you mean 'startingOffsets'?"),
        ("source", "kafka.securty.protocol", "Kafka option unknown setting 'securty.protocol'; did you mean"),
        ("target", "delivry", "unknown option 'delivry'; did you mean 'delivery'?"),
        ("target", "kafka.ssl.trustore.location", "did you mean 'ssl.truststore.location'?"),
    ],
)
def test_options_for_spark_are_looked_at_before_it_starts(
    ottla: Ottla, tmp_path: Path, bootstrap: str, table: str, option: str, said: str
) -> None:
    ottla("topic", "create", "there", "--if-not-exists", "-b", bootstrap)
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'source_name = "east"\ntarget_name = "west"\nrename = "copy-{{topic}}"\n'
        f'[source]\nbootstrap = "{bootstrap}"\ntopics = ["there"]\n[target]\nbootstrap = "{bootstrap}"\n'
        f'[stream]\ncheckpoint = "{tmp_path / "checkpoint"}"\n[{table}.options]\n"{option}" = "x"\n'
    )
    error = ottla("pipeline", "run", "mirror_transform", "-c", str(file), code=1).err
    assert f"{table}.options: " in error
    assert said in error
