"""Words of Kafka have one place each: what `ottla.kafka` and `ottla.wire` name is named nowhere else."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ottla
from ottla import errors, kafka, wire
from ottla.wire import k00_produce, k01_fetch

PACKAGE = Path(ottla.__file__).parent
RUST = PACKAGE.parents[1] / "rust"
#: Numbers of API versions, by API; other rooms import them.
SINCE = {"BATCHES_SINCE", "ZSTD_SINCE", "V1_SINCE"}


def defined(path: Path) -> Iterator[str]:
    """The names that a module defines itself, without the underscores of private ones."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for part in (part for target in targets for part in ast.walk(target)):
                if isinstance(part, ast.Name):
                    yield part.id.lstrip("_")


def test_no_word_is_defined_twice() -> None:
    words = {name for name in vars(kafka) if name[0].isupper()} - {"Final", "IntEnum", "NamedTuple", "TypeAlias"}
    assert {"TopicPartition", "ACKS_ALL", "PROTOCOLS"} <= words
    own = {
        PACKAGE / "kafka.py": words,
        **{PACKAGE / "wire" / f"{name}.py": SINCE for name in ("k00_produce", "k01_fetch")},
    }
    twice = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in {*defined(path)} & (words | SINCE)
        if name not in own.get(path, ())
    }
    assert not twice


def test_keys_of_apis_are_those_of_their_declarations() -> None:
    rust = (RUST / "wire" / "keys.rs").read_text()
    lines = [line.split() for line in rust.splitlines() if line.startswith("pub const")]
    assert len(lines) > 2
    for _, _, name, _, _, number in lines:
        key = int(number.rstrip(";"))
        assert wire.api(key).key == key
        assert name.rstrip(":") == wire._FILES[key].partition("_")[2].upper()


def in_rust(path: str, name: str) -> int:
    """The value of a constant of native code."""
    (found,) = re.findall(rf"const {name}: i\d+ = (-?\d+);", (RUST / path).read_text())
    return int(found)


def test_native_code_means_the_same_by_the_same_words() -> None:
    for path, declared in (("wire/produce.rs", k00_produce), ("wire/fetch/mod.rs", k01_fetch)):
        api = declared.PRODUCE if declared is k00_produce else declared.FETCH
        assert in_rust(path, "VERSION_MAX") == api.versions[-1]
        assert in_rust(path, "ZSTD_SINCE") == declared.ZSTD_SINCE
    assert in_rust("wire/produce.rs", "BATCHES_SINCE") == k00_produce.BATCHES_SINCE
    for name in ("CONSUMER", "READ_UNCOMMITTED", "READ_COMMITTED"):
        assert in_rust("wire/fetch/mod.rs", name) == getattr(kafka, name)
    assert in_rust("log/leader_epochs.rs", "NO_EPOCH") == kafka.NO_EPOCH
    assert in_rust("wire/produce.rs", "ACKS_ALL") == kafka.ACKS_ALL


def test_native_code_defines_keys_and_words_once() -> None:
    words = {name for name in vars(kafka) if name.isupper()} | {error.name for error in errors.BY_CODE.values()}
    words |= {name.partition("_")[2].upper() for name in wire._FILES.values()}
    found = Counter(
        name
        for path in RUST.rglob("*.rs")
        if "tests" not in str(path.relative_to(RUST))
        for name in re.findall(r"const ([A-Z_]+): i(?:16|32) = ", path.read_text())
        if name in words
    )
    assert found["API_VERSIONS"] == found["INVALID_REQUEST"] == found["ACKS_ALL"] == 1
    assert not {name for name, count in found.items() if count > 1}


def test_codes_of_errors_are_those_of_the_table() -> None:
    codes = {error.name: code for code, error in errors.BY_CODE.items()}
    found = {
        (str(path.relative_to(RUST)), name, int(number))
        for path in RUST.rglob("*.rs")
        for name, number in re.findall(r"const ([A-Z_]+): i16 = (\d+);", path.read_text())
        if name in codes
    }
    assert len(found) > 1
    assert not {(path, name) for path, name, number in found if codes[name] != number}
