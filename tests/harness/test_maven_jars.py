"""A class path that cannot be had has a reason, in one line."""

from pathlib import Path

import pytest

from harness import maven_jars
from harness.maven_jars import MavenJars

NOTHING = (("penstock.tests", "is-nowhere", "1"),)


def test_without_maven_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jars = MavenJars("Nothing", "nothing", NOTHING)
    assert jars.classpath is None
    assert jars.why_not == "java is not installed"
    assert not (maven_jars.CACHE / "nothing").exists()
