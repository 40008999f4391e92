"""Many simulated hosts for Ansible, each a directory: measures what a play costs the controller,
and what it changes.

Ansible reaches them by local connections. Each host has its own interpreter, a wrapper that puts
the host's `systemctl` first on the path; that starts a process which sleeps, with the environment
from the unit's drop-in. Whether systemd works is not tested here: tests/fleet boots real hosts.
"""

import hashlib
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
import yaml

from harness.hosts.ansible_tools import ansible_tool

ROOT: Final = Path(__file__).resolve().parents[2]
COLLECTION: Final = ROOT / "deploy/ansible"
MACHINE: Final = os.uname().machine

_INTERPRETER = """#!/bin/sh
PATH="{host}/bin:$PATH" exec {python} "$@"
"""
_SYSTEMCTL = """#!/bin/sh
host="{host}"
drop_in="$host/units/penstock-agent.service.d/50-penstock.conf"
pid=$(cat "$host/pid" 2>/dev/null)
[ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || pid=0
case "$1" in
show)
    [ "$pid" = 0 ] && state=inactive || state=active
    [ -e "$host/enabled" ] && file=enabled || file=disabled
    echo "LoadState=loaded"; echo "ActiveState=$state"; echo "SubState=$state"
    echo "UnitFileState=$file"; echo "NeedDaemonReload=no"; echo "MainPID=$pid"
    echo "Result=success"; echo "ExecMainStatus=0"; echo "NRestarts=0" ;;
enable) touch "$host/enabled" ;;
restart)
    [ "$pid" = 0 ] || kill "$pid"
    with=$(sed -n 's/^Environment=PENSTOCK_STARTED_WITH=//p' "$drop_in")
    env -i PENSTOCK_STARTED_WITH="$with" sleep 7200 </dev/null >/dev/null 2>&1 &
    echo $! > "$host/pid"
    echo "$with" >> "$host/starts" ;;
esac
"""
_PROGRAM = """#!/bin/sh
{before}
PYTHONPATH={root} exec {python} -m penstock "$@"
"""
_CONFIG = """[defaults]
collections_path = {collections}
forks = {forks}
gathering = explicit
host_key_checking = true
interpreter_python = auto_silent
retry_files_enabled = false
stdout_callback = default
[connection]
pipelining = true
"""
_RECAP = re.compile(
    r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE
)


class Played(msgspec.Struct, frozen=True):
    """The outcome of a run of ansible-playbook, with counts by host."""

    code: int
    said: str
    seconds: float
    processor_seconds: float
    ok: Mapping[str, int]
    changed: Mapping[str, int]
    failed: Mapping[str, int]


class Readiness(BaseHTTPRequestHandler):
    """The response of a ready agent; all simulated agents share this port."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""


class SimulatedHosts:
    """`size` hosts below `directory`, named web-0001 and so on."""

    def __init__(self, directory: Path, size: int, port: int, *, forks: int = 20) -> None:
        self.directory = directory
        self.names = [f"web-{number:04}" for number in range(1, size + 1)]
        self.inventory = directory / "inventory.yml"
        self.release = directory / "release"
        self._port = port
        self.release.mkdir()
        for name in self.names:
            self._make(name)
        collections = directory / "collections/ansible_collections/penstock"
        collections.mkdir(parents=True)
        (collections / "pipeline").symlink_to(COLLECTION)
        text = _CONFIG.format(collections=directory / "collections", forks=forks)
        (directory / "ansible.cfg").write_text(text)

    def host(self, name: str) -> Path:
        return self.directory / "hosts" / name

    def _make(self, name: str) -> None:
        host = self.host(name)
        (host / "bin").mkdir(parents=True)
        for path, text in (("python", _INTERPRETER), ("bin/systemctl", _SYSTEMCTL)):
            (host / path).write_text(text.format(host=host, python=sys.executable))
            (host / path).chmod(0o755)

    def write_inventory(self, **more: Any) -> None:
        """Writes the inventory; `more` has further variables of all hosts."""
        folder = str(self.directory / "hosts/{{ inventory_hostname }}")
        variables = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": f"{folder}/python",
            "penstock_root": f"{folder}/opt",
            "penstock_config_dir": f"{folder}/etc",
            "penstock_command": f"{folder}/sbin/penstock",
            "penstock_agent_unit_dir": f"{folder}/units",
            "penstock_agent_user": "root",
            "penstock_agent_http_port": self._port,
            "penstock_agent_timeout": 30,
            "penstock_cluster": "dc1",
            "penstock_brokers": ["broker-1:9092"],
            "penstock_registry_url": "http://broker-1:8081",
            **more,
        }
        groups = {"penstock_agent": {"hosts": dict.fromkeys(self.names, None)}}
        document = {"all": {"vars": variables, "children": groups}}
        self.inventory.write_text(yaml.safe_dump(document))

    def make_release(self, version: str, *, broken: str = "", checks: bool = True) -> None:
        """Builds a bundle whose program is this repository's. `broken` is the error with which the
        program fails. Without `checks`, it accepts every configuration at no cost."""
        check = "exit 0" if not checks else f"echo '{broken}' >&2; exit 1" if broken else ""
        text = _PROGRAM.format(before=check, root=ROOT, python=sys.executable).encode()
        archive = self.release / f"penstock-agent-{version}-linux-{MACHINE}.tar.gz"
        with tarfile.open(archive, "w:gz") as archive_file:
            member = tarfile.TarInfo(f"penstock-agent-{version}/bin/penstock")
            member.mode, member.size = 0o755, len(text)
            archive_file.addfile(member, io.BytesIO(text))
        self.write_sums(version)

    def write_sums(self, version: str) -> None:
        sums = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(self.release.glob(f"*-{version}-*.tar*"))
        ]
        (self.release / f"penstock-{version}.SHA256SUMS").write_text("".join(sums))

    def play(self, playbook: Path | str, *options: str, **extra: Any) -> Played:
        """Plays a playbook, given by path, or by name in the collection."""
        path = (
            COLLECTION / "playbooks" / f"{playbook}.yml" if isinstance(playbook, str) else playbook
        )
        return self.run(
            "ansible-playbook",
            "--inventory",
            str(self.inventory),
            str(path),
            "--extra-vars",
            json.dumps(extra),
            *options,
        )

    def run(self, program: str, *words: str, cwd: Path | None = None) -> Played:
        tool = ansible_tool(program)
        assert tool is not None
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "ansible/tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.directory / "ansible/remote"),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(tool).parent}{os.pathsep}{os.environ['PATH']}",
        }
        for variable in ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONDEVMODE"):
            environment.pop(variable, None)
        start, start_time = os.times(), monotonic()
        result = subprocess.run(
            [tool, *words],
            env=environment,
            cwd=cwd or self.directory,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        times_after = os.times()
        cpu_seconds = times_after.children_user + times_after.children_system
        output = result.stdout + result.stderr
        rows = [(row[0], *map(int, row[1:])) for row in _RECAP.findall(output)]
        return Played(
            code=result.returncode,
            said=output,
            seconds=monotonic() - start_time,
            processor_seconds=cpu_seconds - start.children_user - start.children_system,
            ok={row[0]: row[1] for row in rows},
            changed={row[0]: row[2] for row in rows},
            failed={row[0]: row[4] + row[3] for row in rows},
        )

    def starts(self, name: str) -> int:
        """Returns how often the host's agent was started."""
        path = self.host(name) / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def close(self) -> None:
        for path in self.directory.glob("hosts/*/pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue


@contextmanager
def simulated_hosts(directory: Path, size: int, **more: Any) -> Iterator[SimulatedHosts]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Readiness)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hosts = SimulatedHosts(directory, size, server.server_address[1], **more)
    try:
        yield hosts
    finally:
        hosts.close()
        server.shutdown()
        server.server_close()
        thread.join()


def tree(directory: Path, names: Sequence[str]) -> dict[str, tuple[int, bytes]]:
    """Returns the mode and content of everything below these folders, and the targets of links."""
    entries = {}
    for name in names:
        for path in sorted((directory / name).rglob("*")):
            mode = path.lstat().st_mode
            content = str(path.readlink()).encode() if path.is_symlink() else b""
            if stat.S_ISREG(mode):
                content = path.read_bytes()
            entries[str(path.relative_to(directory))] = (mode, content)
    return entries
