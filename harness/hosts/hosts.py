"""Hosts that are real except for their kernel: each boots systemd from its own root filesystem, has
a network interface and sshd, and can lose power or network at any moment.

  with Hosts(directory, {"broker-1": Host(java=True), "web-1": Host()}) as hosts:
      hosts.ssh("web-1", "systemctl is-system-running")

All of them live in namespaces of their own (mounts, network, processes, control groups), with a
bridge that connects them to CONTROLLER, the address of processes started with `hosts.inside`. They
neither see nor touch the machine's network: two concurrent tests have the same addresses without
noticing. A host's files are in an overlay in `directory`, over a shared root filesystem
(host_roots.py).

Hosts end with the process that created them, however it ends: the first process inside reads from a
pipe of that process, and when it ends everything does. A shell outside then removes the control
groups; mounts and interfaces vanish with their namespaces.
"""

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final, Self

import msgspec

from harness.hosts import host_roots
from harness.hosts.host_roots import OPERATOR, CannotMake
from harness.processes.server_process import OUTPUTS, ServerFailed
from harness.processes.waiting import wait_until

CONTROLLER: Final = "10.77.0.1"
_FIRST: Final = 11  # 10.77.0.11 is the first host's address
_MOST: Final = 200
_WITHIN: Final = 180.0
_NEEDED: Final = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
}

# $1: the folder, $2: the control group's name, $3: the script to run inside.
_OUTER: Final = """
set -e
mkdir -p "$1/cgroups" && mount -t cgroup2 none "$1/cgroups"
mkdir "$1/cgroups/$2"
( echo 0 > "$1/cgroups/$2/cgroup.procs"
  exec unshare --mount --net --pid --cgroup --fork --kill-child --mount-proc sh -c "$3" sh "$1"
) || true
tries=0
while [ -d "$1/cgroups/$2" ] && [ $tries -lt 600 ]; do
    find "$1/cgroups/$2" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    tries=$((tries + 1))
done
"""
# A private /run, for sockets of ssh and files of nspawn and ip.
_INNER: Final = f"""
set -e
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/first && echo 0 > /sys/fs/cgroup/first/cgroup.procs
mount -t tmpfs none /run
mkdir /run/ssh /run/ansible
mount --bind "$1/hosts" /etc/hosts
ip link set lo up
ip link add br0 type bridge
ip address add {CONTROLLER}/24 dev br0
ip link set br0 up
echo ready
exec cat > /dev/null
"""
# $1: the host's folder, $2: its name, $3: its address, $4: layers; the rest are nspawn's. A host
# keeps its MAC address: otherwise others would send to the old one for up to a minute.
_BOOT: Final = """
set -e
folder=$1 name=$2 address=$3 layers=$4; shift 4
mkdir -p "/sys/fs/cgroup/$name" && echo 0 > "/sys/fs/cgroup/$name/cgroup.procs"
mountpoint -q "$folder/root" || mount -t overlay overlay \\
    -o "lowerdir=$layers,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
ip netns del "$name" 2>/dev/null || true
ip link del "$name" 2>/dev/null || true
ip netns add "$name"
card=02:00:$(printf '%02x:%02x:%02x:%02x' $(echo "$address" | tr . ' '))
ip link add "$name" type veth peer name host0 address "$card" netns "$name"
ip link set "$name" master br0 up
ip -n "$name" link set lo up
ip -n "$name" address add "$address/24" dev host0
ip -n "$name" link set host0 up
exec systemd-nspawn --quiet --boot --register=no --keep-unit --link-journal=no \\
    --directory="$folder/root" --machine="$name" --hostname="$name" --console=read-only \\
    --network-namespace-path="/run/netns/$name" --resolv-conf=off --timezone=off "$@"
"""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a host. `small` maps folders to the sizes of their own disks, which are
    empty after each start. `layers` are put over the root filesystem that all hosts share."""

    java: bool = False
    small: Mapping[str, int] = {}
    layers: tuple[Path, ...] = ()


class Ended(msgspec.Struct, frozen=True):
    """The outcome of a command on a host."""

    exit_code: int
    stdout: str
    stderr: str


class HostFailed(ServerFailed):
    """A command on a host failed, or a host did not boot."""


class Hosts:
    """Several hosts; `with` boots them in parallel."""

    def __init__(self, directory: Path, hosts: Mapping[str, Host]) -> None:
        assert 0 < len(hosts) <= _MOST
        assert all(name.replace("-", "").isalnum() and len(name) <= 15 for name in hosts)
        self.directory = directory
        self.hosts = dict(hosts)
        self.addresses = {name: f"10.77.0.{_FIRST + n}" for n, name in enumerate(hosts)}
        self.key = directory / "key"
        self.known_hosts = directory / "known_hosts"
        self._group = f"penstock-hosts-{uuid.uuid4().hex[:12]}"
        self._outer: subprocess.Popen[str] | None = None
        self._first = 0
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    # Commands

    @property
    def inside(self) -> list[str]:
        """Returns the prefix for commands that reach the hosts: they run at CONTROLLER, with the
        hosts' names in /etc/hosts, and end with the hosts."""
        return [
            "nsenter",
            f"--target={self._first}",
            *("--mount", "--net", "--pid", "--cgroup"),
            f"--wd={Path.cwd()}",
            "--",
        ]

    @property
    def ssh_options(self) -> list[str]:
        """Returns options for ssh and scp: keys of their own, and none of the user's settings."""
        options = {
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 10,
            "ServerAliveInterval": 5,
            "ServerAliveCountMax": 6,
            "LogLevel": "ERROR",
        }
        arguments = [f"-o{key}={value}" for key, value in options.items()]
        return ["-F/dev/null", f"-i{self.key}", *arguments]

    def run(self, *command: str, within: float = _WITHIN, stdin: bytes | None = None) -> Ended:
        """Runs one of this machine's commands in the network of the hosts."""
        result = subprocess.run(
            [*self.inside, *command],
            input=b"" if stdin is None else stdin,
            capture_output=True,
            timeout=max(within, 60.0),
            check=False,
        )
        outputs = [text.decode(errors="replace") for text in (result.stdout, result.stderr)]
        return Ended(result.returncode, *outputs)

    def ask(self, host: str, command: str, *, within: float = _WITHIN) -> Ended:
        """Runs a shell command on a host as root, and returns its outcome."""
        sharing = ["-oControlMaster=auto", "-oControlPersist=600", "-oControlPath=/run/ssh/%r@%h"]
        target = f"root@{self._known(host)}"
        return self.run("ssh", *self.ssh_options, *sharing, target, command, within=within)

    def ssh(self, host: str, command: str, *, within: float = _WITHIN) -> str:
        """Returns the output of a command on a host, as root; raises HostFailed if it fails."""
        result = self.ask(host, command, within=within)
        if result.exit_code:
            raise HostFailed(
                f"{host}: {command}: exit code {result.exit_code}\n{result.stdout}{result.stderr}"
            )
        return result.stdout

    def write(self, host: str, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Writes a host's file through its overlay, even while the host is powered off."""
        data = content.encode() if isinstance(content, str) else content
        script = 'mkdir -p "${1%/*}" && cat > "$1" && chmod "$2" "$1"'
        target = f"{self._root(host)}{self._absolute(path)}"
        result = self.run("sh", "-c", script, "sh", target, f"{mode:o}", stdin=data)
        if result.exit_code:
            raise HostFailed(f"{host}: {path}: {result.stderr}")

    def read(self, host: str, path: str) -> bytes:
        """Reads a host's file through its overlay; cannot read files on its own disks (`small`)."""
        target = f"{self._root(host)}{self._absolute(path)}"
        result = subprocess.run(
            [*self.inside, "cat", target], capture_output=True, timeout=60, check=False
        )
        if result.returncode:
            raise HostFailed(f"{host}: {path}: {result.stderr.decode(errors='replace')}")
        return result.stdout

    # Power and network

    def start(self, *names: str) -> None:
        """Powers hosts on, and waits until they have booted and answer by ssh."""
        for name in names:
            self._spawn(name)
        for name in names:
            self._wait_booted(name)

    def kill(self, host: str) -> None:
        """Powers a host off abruptly, closing no connection. Written data survives even without
        sync, since this machine continues."""
        self.cut(host)
        group = f"/sys/fs/cgroup/{self._known(host)}/cgroup.kill"
        self._must("sh", "-c", f"echo 1 > {group}; rm -f /run/ssh/*@{host}")
        self._running.pop(host).wait(_WITHIN)

    def cut(self, host: str) -> None:
        """Unplugs a host's network: connections stay open, but carry nothing."""
        self._must("ip", "link", "set", self._known(host), "down")

    def alive(self, host: str) -> bool:
        process = self._running.get(host)
        return process is not None and process.poll() is None

    # Lifecycle

    def __enter__(self) -> Self:
        obstacle = why_no_hosts()
        if obstacle:
            raise CannotMake(obstacle)
        # Created before the namespaces, which would hide mounts of the creating process.
        layers = {java: host_roots.layers(java=java) for java in self._kinds()}
        self._write_files()
        self._layers = {
            name: ":".join(map(str, [*host.layers, *layers[host.java]]))
            for name, host in self.hosts.items()
        }
        unshare = ("unshare", "--mount", "sh", "-c", _OUTER, "sh")
        self._outer = subprocess.Popen(
            [*unshare, str(self.directory), self._group, _INNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert self._outer.stdout is not None
            line = self._outer.stdout.readline()
            if line != "ready\n":
                raise HostFailed(f"no namespaces: {line}{self._rest_of(self._outer.stdout)}")
            self._first = _first_below(self._outer.pid)
            self.start(*self.hosts)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        assert self._outer is not None
        self._outer.communicate(timeout=_WITHIN)  # closes the pipe that the first process reads
        for process in self._running.values():
            process.wait(_WITHIN)
        self._running.clear()

    def _rest_of(self, output: IO[str]) -> str:
        assert self._outer is not None
        assert self._outer.stdin is not None
        self._outer.stdin.close()
        self._outer.stdin = None
        return output.read()

    def _kinds(self) -> set[bool]:
        return {host.java for host in self.hosts.values()}

    def _spawn(self, name: str) -> None:
        assert not self.alive(name), f"{name} is up"
        folder = self.directory / name
        console = folder / "console.log"
        OUTPUTS.add(console)
        disks = [
            f"--tmpfs={path}:size={size},mode=0755" for path, size in self.hosts[name].small.items()
        ]
        arguments = (str(folder), name, self.addresses[name], self._layers[name])
        with console.open("ab") as output:
            self._running[name] = subprocess.Popen(
                [*self.inside, "sh", "-c", _BOOT, "sh", *arguments, *disks],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait_booted(self, name: str) -> None:
        def booted() -> bool:
            if not self.alive(name):
                console = (self.directory / name / "console.log").read_text(errors="replace")
                raise HostFailed(f"{name} has not booted:\n{console[-4000:]}")
            answer = self.ask(name, "systemctl is-system-running --wait")
            return answer.stdout.strip() in {"running", "degraded"}

        wait_until(booted, within=_WITHIN, what=f"{name} has booted", every=0.3)

    def _write_files(self) -> None:
        """Writes the hosts' names and keys."""
        self.directory.mkdir(parents=True, exist_ok=True)
        host_key = self.directory / "host_key"
        for key in (self.key, host_key):
            keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "hosts", "-f", str(key))
            subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
        names = "".join(f"{address} {name}\n" for name, address in self.addresses.items())
        hosts = f"127.0.0.1 localhost\n{CONTROLLER} controller\n{names}"
        (self.directory / "hosts").write_text(hosts)
        public_key = host_key.with_suffix(".pub").read_text()
        lines = (f"{name},{address} {public_key}" for name, address in self.addresses.items())
        self.known_hosts.write_text("".join(lines))
        for name in self.hosts:
            folder = self.directory / name
            for subfolder in ("root", "work", "upper/etc/ssh", "upper/root/.ssh"):
                (folder / subfolder).mkdir(parents=True, exist_ok=True)
            overlay = folder / "upper"
            for path in (folder, overlay, overlay / "etc", overlay / "etc/ssh"):
                path.chmod(0o755)
            for path in (overlay / "root", overlay / "root/.ssh"):
                path.chmod(0o700)
            shutil.copy(host_key, overlay / "etc/ssh/ssh_host_ed25519_key")
            shutil.copy(host_key.with_suffix(".pub"), overlay / "etc/ssh/ssh_host_ed25519_key.pub")
            (overlay / "etc/hosts").write_text(hosts)
            (overlay / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
            shutil.copy(self.key.with_suffix(".pub"), overlay / "root/.ssh/authorized_keys")
            home = overlay / "home" / OPERATOR
            (home / ".ssh").mkdir(parents=True)
            shutil.copy(self.key.with_suffix(".pub"), home / ".ssh/authorized_keys")
            (overlay / "home").chmod(0o755)
            for path in (home, home / ".ssh", home / ".ssh/authorized_keys"):
                path.chmod(0o600 if path.is_file() else 0o700)
                os.chown(path, _OPERATOR_ID, _OPERATOR_ID)

    def _root(self, host: str) -> str:
        return str(self.directory / self._known(host) / "root")

    def _known(self, host: str) -> str:
        assert host in self.hosts, f"no host {host}"
        return host

    @staticmethod
    def _absolute(path: str) -> str:
        assert path.startswith("/"), path
        assert ".." not in path.split("/"), path
        return path

    def _must(self, *command: str) -> None:
        result = self.run(*command)
        if result.exit_code:
            raise HostFailed(f"{' '.join(command)}: {result.stdout}{result.stderr}")


_OPERATOR_ID: Final = 1000  # the first ordinary user of a Debian


def _first_below(outer: int) -> int:
    """Finds the first process of the namespaces, whose only children are hosts."""
    deadline = time.monotonic() + 60
    pid = outer
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status").read_text()
        pids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if len(pids) > 2 and pids[-1] == "1" and pid != outer:
            return pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0]) if children else outer
    raise HostFailed("the namespaces have no first process")


@cache
def why_no_hosts() -> str:
    """Returns why hosts cannot be booted here, or "" if no reason is known. Checks only the
    prerequisites, without booting a host."""
    for program, package in _NEEDED.items():
        if shutil.which(program) is None:
            return f"no {program}: apt install {package}"
    if os.geteuid() != 0:
        return "only root can create namespaces for hosts"
    with tempfile.TemporaryDirectory() as directory:
        prefix: Sequence[str] = ("unshare", "--mount", "--net", "--pid", "--cgroup", "--fork")
        mount = ("mount", "-t", "cgroup2", "none", directory)
        run = subprocess.run([*prefix, *mount], capture_output=True, text=True, check=False)
    return f"no namespaces or no cgroup2 here: {run.stderr.strip()}" if run.returncode else ""
