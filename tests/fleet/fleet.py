"""Hosts and plays on them: `with Fleet(directory, {"a": Host()}) as fleet: fleet.play("site", …)`.

Plays run the collection of a release, installed from its archive, with ssh to hosts as
`deployer`, who may sudo: from an ansible of their own, in whose folder PENSTOCK_ANSIBLE is (its
`bin`). What the user has of Ansible's settings is not looked at.
"""

import json
import os
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from harness.hosts.ansible_tools import ansible_tool
from harness.hosts.host_roots import OPERATOR
from harness.hosts.hosts import Ended, HostFailed, Hosts
from tests.fleet import releases

_CALLBACKS: Final = Path(__file__).with_name("callbacks")
_WITHIN: Final = 1800.0

Inventory = Mapping[str, Any]


class Task(msgspec.Struct, frozen=True):
    """What came of a task on a host: ok, changed, skipped, failed, ignored, unreachable."""

    outcome: str
    host: str
    task: str
    message: str


class Played(msgspec.Struct, frozen=True):
    """How a play ended. `output` is what whoever types the command sees."""

    exit_code: int
    seconds: float
    output: str
    tasks: tuple[Task, ...]

    def of(self, outcome: str, host: str | None = None) -> list[Task]:
        """Tasks that came out like this, on one host or on all."""
        return [
            each for each in self.tasks if each.outcome == outcome and host in {None, each.host}
        ]

    def by_host(self, outcome: str) -> dict[str, int]:
        return dict(Counter(each.host for each in self.of(outcome)))

    @property
    def changed(self) -> list[str]:
        return [f"{each.host}: {each.task}" for each in self.of("changed")]

    @property
    def failed(self) -> list[str]:
        return [f"{each.host}: {each.task}: {each.message}" for each in self.of("failed")]

    @property
    def unreachable(self) -> set[str]:
        return {each.host for each in self.of("unreachable")}

    def must_succeed(self) -> "Played":
        if self.exit_code:
            raise HostFailed(f"a play ended with {self.exit_code}:\n{self.output[-8000:]}")
        return self


class Fleet(Hosts):
    """Hosts, with the collection that is installed on them."""

    def play(
        self,
        playbook: str,
        inventory: Inventory | Path,
        extra_vars: Mapping[str, Any] | None = None,
        *arguments: str,
        check: bool = False,
        within: float = _WITHIN,
    ) -> Played:
        """Of the collection (`site`), or a file (`anything.yml`)."""
        started = self.start_play(playbook, inventory, extra_vars, *arguments, check=check)
        return started.wait(within=within)

    def start_play(
        self,
        playbook: str,
        inventory: Inventory | Path,
        extra_vars: Mapping[str, Any] | None = None,
        *arguments: str,
        check: bool = False,
    ) -> "Playing":
        """The same, not waited for: something may happen meanwhile."""
        name = playbook if playbook.endswith(".yml") else f"penstock.pipeline.{playbook}"
        given = ["--extra-vars", json.dumps(dict(extra_vars))] if extra_vars else []
        how = ["--check", "--diff"] if check else []
        path = self._inventory(inventory)
        words = (name, "--inventory", str(path), *given, *how, *arguments)
        return self._start("ansible-playbook", *words)

    def typed(self, text: str, folder: Path) -> Ended:
        """By whoever is at the controller, in a folder of theirs: into a shell that knows how hosts
        are reached and where Ansible is, and has its collections in that folder. Of `penstock` it
        has what is installed in ~/penstock."""
        tools = self._made("ansible")
        for tool in ansible_bin().glob("ansible*"):
            if not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
        path = os.defpath + os.pathsep + "/usr/sbin:/sbin"
        environment = {
            **self._environment,
            "PATH": os.pathsep.join([f"{self._made('home')}/penstock/bin", str(tools), path]),
            "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.key),
            "ANSIBLE_SSH_COMMON_ARGS": " ".join(self.ssh_options),
        }
        return self.run(
            "env",
            *(f"{key}={value}" for key, value in environment.items()),
            *("bash", "-ec", f"cd {shlex.quote(str(folder))}\n{text}"),
            within=_WITHIN,
        )

    def inventory(self, groups: Inventory) -> Path:
        """A file of it for `--inventory`: what is given, and how our hosts are reached."""
        return self._inventory(groups)

    def _start(self, program: str, *arguments: str) -> "Playing":
        record = self.directory / f"record-{time.monotonic_ns()}.jsonl"
        record.touch()
        environment = {**self._environment, "PENSTOCK_PLAY_RECORD": str(record)}
        command = [*self.inside, str(ansible_bin() / program), *arguments]
        return Playing(command, environment, record)

    @cached_property
    def _environment(self) -> dict[str, str]:
        """Nothing of what the user set for Ansible."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        return {
            **kept,
            "PATH": f"{ansible_bin()}{os.pathsep}{kept['PATH']}",
            "HOME": str(self._made("home")),
            "ANSIBLE_CONFIG": str(self._configuration()),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": "recorded",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "",
        }

    def _configuration(self) -> Path:
        """As our examples recommend it, but for where ssh's sockets lie; and without ssh's
        compression, which costs more here than the network does."""
        path = self.directory / "ansible.cfg"
        path.write_text(
            "[defaults]\ninterpreter_python = auto_silent\ngathering = explicit\nforks = 20\n"
            "stdout_callback = penstock.pipeline.changes\n"
            "[ssh_connection]\npipelining = true\ncontrol_path_dir = /run/ansible\n"
            "ssh_args = -o ControlMaster=auto -o ControlPersist=60s\n"
        )
        return path

    @cached_property
    def collections(self) -> Path:
        """Where the collection lies, from its archive."""
        release = releases.made(releases.working_tree())
        return install_collection(self._made("collection"), release.collection)

    def _inventory(self, inventory: Inventory | Path) -> Path:
        if isinstance(inventory, Path):
            return inventory
        folder = self._made("inventory")
        mine = {
            "ansible_user": OPERATOR,
            "ansible_become": True,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(
                each for each in self.ssh_options if not each.startswith("-i")
            ),
        }
        everything = {"all": {**inventory.get("all", {}), "children": _children(inventory)}}
        everything["all"]["vars"] = {**mine, **everything["all"].get("vars", {})}
        # By its cluster: several inventories lie in one folder, and share an authority.
        path = folder / f"{everything['all']['vars'].get('penstock_cluster', 'hosts')}.yml"
        path.write_text(yaml.safe_dump(everything, sort_keys=False))
        return path

    def _made(self, name: str) -> Path:
        folder = self.directory / name
        folder.mkdir(exist_ok=True)
        return folder


class Playing:
    """A play that runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], record: Path):
        self._record = record
        self._output = record.with_suffix(".out")
        self._began = time.monotonic()
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
            )

    @property
    def output(self) -> str:
        """So far."""
        return self._output.read_text(errors="replace")

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Those that have ended so far."""
        whole = self._record.read_text().rpartition("\n")[0]
        return tuple(Task(**json.loads(line)) for line in whole.splitlines())

    def wait(self, *, within: float = _WITHIN) -> Played:
        exit_code = self.process.wait(within)
        seconds = time.monotonic() - self._began
        return Played(exit_code, seconds, self.output, self.tasks)


def _children(inventory: Inventory) -> dict[str, Any]:
    """Groups as they are given: {"penstock_broker": ["a", "b"]}, or as Ansible has them."""
    return {
        name: {"hosts": dict.fromkeys(group)} if isinstance(group, list | tuple) else group
        for name, group in inventory.items()
        if name != "all"
    }


def ansible_bin() -> Path:
    """The folder of Ansible's commands."""
    found = ansible_tool("ansible-playbook")
    if found is None:
        raise HostFailed("no ansible-playbook: PENSTOCK_ANSIBLE=/path/to/venv/bin says where")
    return Path(found).parent


def install_collection(directory: Path, archive: Path) -> Path:
    """The path for ANSIBLE_COLLECTIONS_PATH."""
    target = directory / "installed"
    if not target.exists():
        galaxy = str(ansible_bin() / "ansible-galaxy")
        ended = subprocess.run(
            [galaxy, "collection", "install", str(archive), "--collections-path", str(target)],
            env={**os.environ, "ANSIBLE_HOME": str(directory), "HOME": str(directory)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise HostFailed(f"{archive.name}: {ended.stdout}{ended.stderr}")
    return target
