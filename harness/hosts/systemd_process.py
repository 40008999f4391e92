"""A real systemd, the first process in namespaces of its own, with units of the test.

It has its own processes, mounts and control groups, and the machine's network and files. It ends
with the process that started it, and everything it started ends with it. It needs root, and a
kernel that lets root mount cgroup2, which containers usually do not.
"""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Self

from harness.processes.server_process import ServerFailed
from harness.processes.waiting import wait_until

SYSTEMD: Final = Path("/usr/lib/systemd/systemd")
_WITHIN: Final = 60.0
_TARGET: Final = "tests.target"
_BARE: Final = "[Unit]\nDefaultDependencies=no\n"
_STUBS: Final = ("sysinit", "basic", "shutdown", "network-online", "tests")  # units' targets

_IN_MOUNTS: Final = ("unshare", "--mount", "sh", "-c")  # in a mount namespace of its own
# Its control groups are below one that we create, which is its root.
_OUTER: Final = """
set -e
mkdir -p "$1/cgroups" && mount -t cgroup2 none "$1/cgroups"
mkdir "$1/cgroups/$2" && echo $$ > "$1/cgroups/$2/cgroup.procs"
exec unshare --mount --pid --cgroup --fork --kill-child --mount-proc sh -c "$3" sh "$1"
"""
_INNER: Final = """
set -e
mount --make-rshared /
mount -t tmpfs none /run && mkdir /run/systemd
mount -t cgroup2 none /sys/fs/cgroup
exec env -i PATH="$PATH" container=tests SYSTEMD_UNIT_PATH="$1/units" /usr/lib/systemd/systemd \
    --system --unit=tests.target --log-target=null --show-status=0
"""
_REMOVE: Final = """
mount -t cgroup2 none "$1/cgroups" && find "$1/cgroups/$2" -depth -type d -exec rmdir {} +
"""


class Systemd:
    """A running systemd: `with Systemd(directory, {"a.service": text}) as systemd: systemd("start",
    …)`."""

    def __init__(self, directory: Path, units: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._group = f"penstock-tests-{uuid.uuid4().hex[:12]}"
        self._process: subprocess.Popen[str] | None = None
        self._first = 0
        stubs = {f"{name}.target": _BARE for name in _STUBS}
        for name, text in {**stubs, **units}.items():
            path = directory / "units" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def __call__(self, *arguments: str, check: bool = True) -> str:
        """Returns the output of `systemctl`."""
        nsenter = ("nsenter", f"--target={self._first}", "--mount", "--pid", "--cgroup")
        return subprocess.run(
            [*nsenter, "systemctl", *arguments],
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=check,
        ).stdout

    def show(self, unit: str, name: str) -> str:
        """Returns a property of a unit."""
        return self("show", "--value", f"--property={name}", unit).strip()

    def main_pid(self, unit: str) -> int:
        """Returns the id of the unit's main process as seen from outside; 0 if it is not
        running."""
        inner_pid = self.show(unit, "MainPID")
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                pid_lines = [
                    line
                    for line in status.read_text(errors="replace").splitlines()
                    if "NSpid:" in line
                ]
            except OSError:
                continue
            pids = pid_lines[0].split()[1:] if pid_lines else []
            if len(pids) > 1 and pids[-1] == inner_pid and self._is_mine(int(pids[0])):
                return int(pids[0])
        return 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*_IN_MOUNTS, _OUTER, "sh", str(self._directory), self._group, _INNER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            wait_until(self._is_up, within=_WITHIN, what="systemd is up")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            output = self._process.stdout.read() if self._process.stdout else ""
            raise ServerFailed(" ".join(output.split()) or "systemd has ended")
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return False
        self._first = int(children[0])
        try:
            is_systemd = Path(f"/proc/{self._first}/exe").readlink() == SYSTEMD.resolve()
        except OSError:
            return False
        return is_systemd and self("is-active", _TARGET, check=False).strip() == "active"

    def _is_mine(self, pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/ns/pid").readlink() == self._namespace
        except OSError:
            return False

    def _end_services(self) -> None:
        """Ends the services, which removes their private directories."""
        if not self._first:
            return
        with suppress(subprocess.TimeoutExpired):
            self("kill", "--signal=KILL", "*.service", check=False)
            self("stop", "*.service", check=False)

    @property
    def _namespace(self) -> Path:
        return Path(f"/proc/{self._first}/ns/pid").readlink()

    def _end(self) -> None:
        assert self._process is not None
        self._end_services()
        self._process.kill()
        self._process.communicate()
        # The kernel takes a moment to end everything in it.
        removal = [*_IN_MOUNTS, _REMOVE, "sh", str(self._directory), self._group]
        wait_until(
            lambda: subprocess.run(removal, check=False, capture_output=True).returncode == 0,
            within=_WITHIN,
            what="its control groups are removed",
            every=0.1,
        )


@cache
def why_no_systemd() -> str:
    """Tries to run a systemd; returns "" if that works, otherwise the reason."""
    if not SYSTEMD.exists():
        return "apt install systemd"
    for program in ("unshare", "nsenter", "systemctl"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "only root can create namespaces for systemd"
    directory = Path(tempfile.mkdtemp())
    try:
        with Systemd(directory, {}):
            return ""
    except (ServerFailed, TimeoutError, OSError) as error:
        return f"systemd does not start in namespaces:  {error}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)
