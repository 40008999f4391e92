"""What a supervisor is told, read from a real socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground import systemd
from ground.systemd import Supervisor


@pytest.fixture(params=["path", "abstract"])
def listening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[socket.socket, str]]:
    """A socket such as systemd's, and what NOTIFY_SOCKET says of it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.settimeout(5)
        if request.param == "path":
            channel.bind(str(tmp_path / "notify"))
            yield channel, str(tmp_path / "notify")
        else:
            name = f"penstock-test-{os.getpid()}"
            channel.bind("\0" + name)
            yield channel, "@" + name


def test_it_is_told(listening: tuple[socket.socket, str]) -> None:
    channel, address = listening
    supervisor = Supervisor({"NOTIFY_SOCKET": address})
    supervisor.tell(systemd.READY, systemd.status("5 inputs\nand more"))
    assert channel.recv(1000) == b"READY=1\nSTATUS=5 inputs and more"
    supervisor.tell(systemd.STOPPING, systemd.needs(2.5))
    assert channel.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=2500000"
    supervisor.tell(systemd.reloading())
    assert channel.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")


def test_nobody_or_one_who_is_gone_is_no_trouble(tmp_path: Path) -> None:
    Supervisor({}).tell(systemd.READY)
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "absent")}).tell(systemd.READY)


def test_one_who_does_not_listen_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for _ in range(5_000):
            supervisor.tell(systemd.ALIVE)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_how_often_it_wants_to_hear(environment: dict[str, str], seconds: float) -> None:
    assert Supervisor(environment).watchdog_seconds == seconds


def test_it_is_this_process_that_is_to_be_heard_of() -> None:
    mine = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    assert Supervisor(mine).watchdog_seconds == 30.0
