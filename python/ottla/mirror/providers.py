"""Values that a mirror's file takes from elsewhere: `${provider:path:key}` (KIP-297, KIP-421, KIP-887).

    config.providers = file
    config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
    A.ssl.keystore.password = ${file:/etc/mirror/secrets.properties:keystore}

| class                     | `path`            | `key`                              |
|---------------------------|-------------------|------------------------------------|
| `FileConfigProvider`      | a properties file | of an entry                        |
| `DirectoryConfigProvider` | a directory       | a file's name; its text, unchanged |
| `EnvVarConfigProvider`    | none              | an environment variable            |

Others are Java classes, which cannot be loaded here. What they would have given is asked for by no value, or an error:
a password that reads `${vault:...}` would only be refused by the cluster. Values are read once, when the file is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.config import properties
from ottla.config.values import ConfigError

PREFIX: Final = "config.providers"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


def _entry(path: str, key: str) -> str:
    found = {entry.key: entry.value for entry in properties.read(path)}
    if key not in found:
        raise ConfigError("", f"{path} has no {key}")
    return found[key]


def _text(path: str, key: str) -> str:
    try:
        return (Path(path) / key).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("", f"cannot read {Path(path) / key}: {getattr(error, 'strerror', error)}") from None


def _variable(path: str, key: str) -> str:
    name = f"{path}:{key}" if path else key
    if name not in os.environ:
        raise ConfigError("", f"there is no environment variable {name}")
    return os.environ[name]


READERS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "FileConfigProvider": _entry,
    "DirectoryConfigProvider": _text,
    "EnvVarConfigProvider": _variable,
}


class Providers:
    """Those that settings name. `parameters` are names of settings about them that have no effect."""

    def __init__(self, given: Mapping[str, str]) -> None:
        names = [name.strip() for name in given.get(PREFIX, "").split(",") if name.strip()]
        self._classes = {name: given.get(f"{PREFIX}.{name}.class", "").strip() for name in names}
        known = {PREFIX, *(f"{PREFIX}.{name}.class" for name in names)}
        self.parameters = [name for name in given if is_of_providers(name) and name not in known]

    def read(self, value: str) -> tuple[str, list[str]]:
        """The value with what it names in place of the names, and each of these alone.

        Raises:
            ConfigError: it is not there, cannot be read, or only Java could.
        """
        found: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            name, path, key = match.groups(default="")
            kind = self._classes.get(name)
            if kind is None:  # no provider is meant
                return match[0]
            reader = READERS.get(kind.rpartition(".")[2])
            if reader is None:
                named = f"is the Java class {kind}" if kind else f"has no {PREFIX}.{name}.class"
                raise ConfigError("", f"{match[0]}: provider {name} {named}; here there are {', '.join(READERS)}")
            try:
                found.append(reader(path, key))
            except ConfigError as error:
                raise ConfigError("", f"{match[0]}: {error}") from None
            return found[-1]

        return _VARIABLE.sub(replaced, value), found


def is_of_providers(name: str) -> bool:
    """Whether a setting is about providers."""
    return name == PREFIX or name.startswith(f"{PREFIX}.")
