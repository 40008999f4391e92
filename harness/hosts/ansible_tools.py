"""Ansible's programs as a user has them, with the collection where they look for it.

They are those in the development environment; with PENSTOCK_ANSIBLE=DIR those of another one, such
as Debian 12's ansible-core 2.14 in /usr/bin.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from harness.logins.made_secrets import is_told

REPOSITORY: Final = Path(__file__).resolve().parents[2]
COLLECTION: Final = REPOSITORY / "deploy" / "ansible"
VARIABLE: Final = "PENSTOCK_ANSIBLE"
CALLBACKS: Final = REPOSITORY / "tests" / "ansible" / "callbacks"
_WITHIN: Final = 600


def ansible_tool(name: str) -> str | None:
    """Returns the program's path; None if it is not installed."""
    folder = os.environ.get(VARIABLE) or str(Path(sys.executable).parent)
    return shutil.which(name, path=folder)


def environment(folder: Path) -> dict[str, str]:
    """Returns the environment for running Ansible with all its files in this folder: without the
    user's settings, and with the repository's collection."""
    namespace = folder / "collections" / "ansible_collections" / "penstock"
    if not namespace.exists():
        namespace.mkdir(parents=True)
        (namespace / "pipeline").symlink_to(COLLECTION)
    settings = folder / "ansible.cfg"
    settings.touch()
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS"):
        env.pop(variable, None)
    return {
        **env,
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible" / "tmp"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible" / "remote"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_PIPELINING": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Two interpreter options of the tests are not for Ansible.
        "PYTHONDEVMODE": "",
    }


class Played(msgspec.Struct, frozen=True):
    """The outcome of a playbook: for each task, its name and the host's result."""

    code: int
    said: str
    tasks: tuple[tuple[str, Mapping[str, Any]], ...]
    seconds: float

    @property
    def changed(self) -> list[str]:
        return [name for name, result in self.tasks if result.get("changed")]

    @property
    def failure(self) -> str:
        """The message of the first failed task."""
        failures = [result for _, result in self.tasks if result["failed"] or result["ignored"]]
        assert failures, self.said
        return str(failures[0].get("msg"))

    def plays(self) -> "list[Played]":
        """Splits the outcome by play; the exit code of a play is 2 if one of its tasks failed."""
        plays: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for name, result in self.tasks:
            plays.setdefault(result["play"], []).append((name, result))
        failures_by_play = [
            any(task["failed"] or task["ignored"] for _, task in run) for run in plays.values()
        ]
        return [
            Played(2 if has_failed else 0, self.said, tuple(results), self.seconds)
            for has_failed, results in zip(failures_by_play, plays.values(), strict=True)
        ]

    @property
    def diff(self) -> str:
        differences = [result["diff"] for _, result in self.tasks if result.get("diff")]
        return json.dumps(differences)


def play(
    folder: Path,
    document: list[dict[str, Any]] | Path,
    inventory: Mapping[str, Any],
    *options: str,
    variables: Mapping[str, Any] | None = None,
) -> Played:
    """Plays a playbook on this machine, without ssh; its output must not contain secrets."""
    program = ansible_tool("ansible-playbook")
    assert program is not None
    if isinstance(document, Path):
        playbook = document
    else:
        playbook = folder / "play.yml"
        playbook.write_text(yaml.safe_dump(document))
    hosts = folder / "hosts.yml"
    hosts.write_text(yaml.safe_dump(inventory))
    (folder / "variables.yml").write_text(yaml.safe_dump(dict(variables or {})))
    start_time = time.monotonic()
    results_file = folder / "told"
    results_file.write_text("")
    command = [program, "-i", str(hosts), "-e", f"@{folder}/variables.yml", *options]
    run = subprocess.run(
        [*command, str(playbook)],
        cwd=folder,
        env={
            **environment(folder),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "told",
            "PENSTOCK_TOLD": str(results_file),
        },
        capture_output=True,
        text=True,
        timeout=_WITHIN,
        check=False,
    )
    output = run.stdout + run.stderr
    assert not is_told(output), "the output contains a secret"
    tasks = tuple(
        (entry["name"], entry["result"])
        for entry in map(json.loads, results_file.read_text().splitlines())
    )
    return Played(run.returncode, output, tasks, time.monotonic() - start_time)
