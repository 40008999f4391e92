"""Java programs used by the tests, from jars that Maven resolves.

Maven runs once and puts the jars into its local repository; the class path is cached below
`.cache/` until one of its jars is missing. Without Java, Maven or network, a program has no class
path, and says why.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"

_SOON_THERE: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a process that lives for seconds
)

Artifact = tuple[str, str, str]  # group, name, version


class JarsUnavailable(Exception):
    """A program's jars are unavailable here; the message says why."""


class MavenJars:
    """The jars of `artifacts` and their dependencies. `name` is that of the program, `folder` that
    of the cache.

    With `alone`, without dependencies, for jars loaded besides others. The first use may download
    for minutes; later ones are immediate.
    """

    def __init__(
        self, name: str, folder: str, artifacts: Sequence[Artifact], *, alone: bool = False
    ) -> None:
        self.name = name
        self._cache = CACHE / folder
        self._pom = _pom(artifacts, _NOTHING_ELSE if alone else "")

    @property
    def classpath(self) -> str | None:
        """The class path; None if unavailable."""
        return self._classpath_or_reason[0]

    @property
    def why_not(self) -> str:
        """The reason why there is no class path."""
        return self._classpath_or_reason[1]

    @functools.cached_property
    def _classpath_or_reason(self) -> tuple[str | None, str]:
        try:
            return self._resolve(), ""
        except JarsUnavailable as reason:
            return None, str(reason)

    def _resolve(self) -> str:
        needs_maven()
        cached_path = self._cache / "classpath"
        if cached_path.exists():
            classpath = cached_path.read_text()
            if all(Path(jar).exists() for jar in classpath.split(":")):
                return classpath
        self._cache.mkdir(parents=True, exist_ok=True)
        # Two test processes may do this at the same time.
        with tempfile.TemporaryDirectory(dir=self._cache) as scratch:
            new_path = Path(scratch) / "classpath"
            self._ask_maven(Path(scratch) / "pom.xml", new_path)
            new_path.replace(cached_path)
        return cached_path.read_text()

    def _ask_maven(self, pom: Path, classpath: Path) -> None:
        pom.write_text(self._pom)
        options = [f"-Dmdep.outputFile={classpath}", "-Dmdep.includeScope=runtime"]
        run_maven(f"{self.name}'s jars", f"--file={pom}", "dependency:build-classpath", *options)


def needs_maven() -> None:
    """Raises JarsUnavailable unless Java and Maven are installed."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise JarsUnavailable(f"{program} is not installed")


def run_maven(what: str, *arguments: str) -> None:
    """Runs Maven. Raises JarsUnavailable."""
    try:
        run = subprocess.run(
            ["mvn", "--quiet", "--batch-mode", *arguments],
            env={"MAVEN_OPTS": _SOON_THERE, **os.environ},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarsUnavailable(f"Maven did not find {what} within 10 minutes") from None
    if run.returncode:
        lines = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
        raise JarsUnavailable(f"Maven cannot resolve {what}: {lines[0]}")


_NOTHING_ELSE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _pom(artifacts: Sequence[Artifact], exclusions: str) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>penstock.tests</groupId><artifactId>class-path</artifactId>"
        "<version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
