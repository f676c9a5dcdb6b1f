"""Spark without what it needs: one line that says what."""

from pathlib import Path

import pytest

from ottla.spark import session

pytestmark = pytest.mark.spark


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="Spark needs Java 17 or newer, and there is no java in the path"):
        session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match="has no bin/java"):
        session()
