"""A real systemd-journald of its own, in a mount namespace: it needs root, and no other systemd.

Its files, and the socket at which it listens, are in a folder of the caller's, so that they can be
read and written from outside. Rotation and vacuum are what a host's journal does, too. It can be
that of another release, from a root filesystem that debootstrap made.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harness.processes.waiting import wait_until

JOURNALD: Final = Path("/lib/systemd/systemd-journald")
_NAMESPACE: Final = "test"
_ALONE: Final = ("unshare", "--mount", "--propagation", "private")
# Without a value for Audit, the kernel's auditing stays as it is.
_CONFIG: Final = """[Journal]
Storage=persistent
Audit=
RateLimitBurst=0
SyncIntervalSec=0
SystemMaxFileSize=8M
"""
_START: Final = f"""
cd "$1" && mount -t tmpfs tmpfs var/log && mkdir var/log/journal &&
mount --bind "$0/log" var/log/journal && mount -t tmpfs tmpfs run && mkdir run/systemd &&
mount --bind "$0/run" run/systemd && mount --bind "$0/etc" etc/systemd &&
mount --bind "$0/machine-id" etc/machine-id &&
for folder in proc sys dev; do [ "$1" = / ] || mount --rbind /$folder $folder || exit; done &&
exec chroot . {JOURNALD} {_NAMESPACE}
"""


def numbers_entries() -> bool:
    """Whether journalctl writes the numbers of entries."""
    result = subprocess.run(["journalctl", "--version"], capture_output=True, text=True, check=True)
    return int(result.stdout.split()[1]) >= 254


def can_run() -> bool:
    tools = all(shutil.which(tool) for tool in ("journalctl", "unshare", "mount"))
    return os.geteuid() == 0 and JOURNALD.exists() and tools


class Journald:
    """A running journald. `directory` has its files. `machine_id`: default is this machine's.
    `root`: the root filesystem that has the program."""

    def __init__(self, machine_id: str = "", root: Path = Path("/")) -> None:
        self._root = root
        self._machine_id = machine_id or Path("/etc/machine-id").read_text().strip()
        self._folder = Path(
            tempfile.mkdtemp(prefix="jd-", dir=root / "tmp")
        )  # sockets need short paths
        for name in ("log", "run", "etc"):
            (self._folder / name).mkdir()
        (self._folder / "etc" / f"journald@{_NAMESPACE}.conf").write_text(_CONFIG)
        (self._folder / "machine-id").write_text(f"{self._machine_id}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    @property
    def directory(self) -> Path:
        return self._folder / "log" / f"{self._machine_id}.{_NAMESPACE}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*_ALONE, "sh", "-c", _START, self._folder, self._root],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        path = self._folder / "run" / f"journal.{_NAMESPACE}" / "socket"
        sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

        def connects() -> bool:
            try:
                sending.connect(str(path))
            except OSError:
                return False
            return True

        wait_until(connects, what="journald does not listen")
        sending.settimeout(60)
        self._socket = sending
        self._stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stream.connect(str(path.with_name("stdout")))  # keeps it from exiting when idle

    def stop(self) -> None:
        assert self._process is not None
        assert self._socket is not None
        self._socket.close()
        self._stream.close()
        self._process.terminate()
        self._process.wait()

    def send(self, messages: Sequence[str | bytes], **fields: str | bytes) -> None:
        """Sends entries with the same fields besides their messages."""
        assert self._socket is not None
        for message in messages:
            self._socket.send(_native({"MESSAGE": message, **fields}))

    def rotate(self) -> None:
        """Begins new files, and archives those that there are, with all that was sent."""
        assert self._process is not None
        before = self.archived()
        marker = f"ROTATION={uuid.uuid4().hex}"
        self.send(["rotation"], ROTATION=marker.partition("=")[2])
        wait_until(lambda: self._has(marker), what="journald writes nothing")
        self._process.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.archived() != before, what="journald does not rotate")

    def _has(self, field: str) -> bool:
        command = ["journalctl", f"--directory={self.directory}", "--output=cat", field]
        return bool(subprocess.run(command, capture_output=True, check=False).stdout)

    def archived(self) -> set[Path]:
        return {path for path in self.directory.rglob("*.journal") if "@" in path.name}

    def vacuum(self) -> None:
        """Removes the archived files."""
        for path in self.archived():
            path.unlink()


def _native(fields: Mapping[str, str | bytes]) -> bytes:
    """An entry in journald's native protocol."""
    parts = []
    for name, value in fields.items():
        data = value.encode() if isinstance(value, str) else value
        parts.append(b"%b\n%b%b\n" % (name.encode(), len(data).to_bytes(8, "little"), data))
    return b"".join(parts)
