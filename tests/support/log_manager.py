"""A log manager without a broker."""

from collections.abc import Iterable
from pathlib import Path

from ottla import _core
from ottla.config import BrokerConfig


class Settings:
    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.topics: dict[str, dict[str, str]] = {}

    async def load_topic(self, topic: str) -> None:
        self.topics.setdefault(topic, {})

    def keeps_everything(self, topic: str | None) -> bool:
        return False


def append(log: _core.Log, value: bytes) -> None:
    builder = _core.BatchBuilder()
    builder.append(1, None, value)
    log.append_bytes(builder.finish(), 0)


def config(*paths: Path, **settings: str) -> BrokerConfig:
    return BrokerConfig.load(None, {"log.dirs": ",".join(map(str, paths)), **settings})


def folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


def paths(tmp_path: Path, names: Iterable[str] = "ab") -> list[Path]:
    return [tmp_path / name for name in names]
