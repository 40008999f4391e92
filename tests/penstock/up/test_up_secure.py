"""`penstock up --secure`: what was open goes on behind locks, through kills, and loses nothing."""

import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset
import pytest

from harness.waiting import wait_until
from penstock.directory.entrance import Entrance
from penstock.directory.locks import ADMIN, TOKENS, USERS, Locks
from penstock.directory.places import Addresses, Places, Ports
from penstock.status.asking import Asking
from tests.penstock.running import penstock
from tests.penstock.up.started import ALL, PATIENCE, Up, are_gone, family, until_standing


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_was_open_goes_on_behind_locks(
    tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, log = tmp_path / "my data", tmp_path / "logs" / "app.log"
    log.parent.mkdir()  # its own: in no other can names change while nobody watches
    places, ports = Places(directory), Ports.beginning_at(base)
    locks, addresses = Locks.of(places), Addresses.of(ports, secure=True)
    written: list[str] = []

    def write() -> None:
        new = [f"line {len(written) + number}" for number in range(50)]
        with log.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        written.extend(new)

    arguments = ("--dir", str(directory))
    follow = ("--port-base", str(base), "--follow", f"web={log}")
    write()
    with (
        Up(tmp_path / "open.txt", *arguments, *follow) as up,
        Asking(Entrance(Addresses.of(ports))) as asking,
    ):
        until_standing(asking, lambda web: web.stored == len(written))
        up.interrupt()
        assert up.wait() == 0, up.said()
    assert not locks.folder.exists()

    write()
    with (
        Up(tmp_path / "locked.txt", *arguments, "--secure") as up,
        Asking(Entrance.of(places, ports, secure=True)) as asking,
    ):
        until_standing(asking, lambda web: web.stored == len(written))
        assert up.times("this pipeline was open, and is behind locks from now on") == 1
        pids = family(up.process.pid)
        up.process.kill()
        assert up.wait() < 0
        wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")
    made = {path: path.read_bytes() for path in secrets_of(locks)}

    write()
    with (
        Up(tmp_path / "again.txt", *arguments) as up,
        Asking(Entrance.of(places, ports, secure=True)) as asking,
    ):
        up.until("everything runs: dashboard https://")
        until_standing(asking, lambda web: web.landed == len(written), verdict="complete")
        assert sorted(up.programs()) == sorted(ALL)
        assert {path: path.read_bytes() for path in secrets_of(locks)} == made
        assert_kept_secret(made, family(up.process.pid), directory, tmp_path)
        assert_refused(addresses)
        for name, value in variables(places.environment):
            monkeypatch.setenv(name, value)
        assert_served()
        up.interrupt()
        assert up.wait() == 0, up.said()
    landed = pyarrow.dataset.dataset(places.warehouse / "web").to_table(["message"])
    assert sorted(landed["message"].to_pylist()) == sorted(written)
    assert "not authorized" not in places.log("broker").read_text()


def secrets_of(locks: Locks) -> list[Path]:
    """Files of which nothing may stand anywhere else."""
    passwords = [locks.password(user) for user in USERS]
    return [*passwords, *(locks.token(user) for user in TOKENS), locks.authority / "ca.key"]


def assert_kept_secret(
    secrets: dict[Path, bytes], pids: Iterable[int], directory: Path, outputs: Path
) -> None:
    """Neither in files, of which logs and states of programs are some, nor in processes."""
    said = {
        path: path.read_bytes()
        for path in [*directory.rglob("*"), *outputs.glob("*.txt")]
        if path.is_file() and path not in secrets
    }
    for pid in pids:
        for name in ("cmdline", "environ"):
            path = Path(f"/proc/{pid}/{name}")
            try:
                said[path] = path.read_bytes()
            except OSError:
                continue  # it has ended
    assert len(said) > len(ALL)
    for path, secret in secrets.items():
        assert path.stat().st_mode & 0o777 == 0o600
        found = [str(each) for each, content in said.items() if secret.strip() in content]
        assert found == [], path.name


def assert_refused(addresses: Addresses) -> None:
    """Who comes from this machine and says nothing of himself."""
    for arguments, why in (
        (("topics", "list", "-b", addresses.brokers), "does it want TLS?"),
        (("report", "--audit", addresses.audit), "its certificate: unable to get local issuer"),
        (("schemas", "list", "-r", addresses.registry), "its certificate: unable to get"),
    ):
        ended = penstock(*arguments)
        assert ended.returncode not in {0, 2}, arguments
        assert why in ended.stderr
        assert ended.stdout == ""


def assert_served() -> None:
    """Who has read the environment."""
    since = datetime.now(UTC) - timedelta(hours=1)
    report = penstock("report", "web", "--from", f"{since:%Y-%m-%dT%H:%M}")
    assert (report.returncode, report.stderr) == (0, ""), report.stdout
    names = [line.split()[0] for line in penstock("users", "list").stdout.splitlines()[1:]]
    assert names == sorted(USERS)
    assert ADMIN in names
    for user, resource, operation, may in (
        ("agent", "topic:web", "write", True),
        ("agent", "topic:_schemas", "write", False),
        ("loader", "topic:web", "read", True),
        ("loader", "topic:web", "write", False),
        ("loader", "group:penstock-loader", "read", True),
        ("audit", "topic:_audit", "read", True),
        ("audit", "topic:web", "read", False),
        ("audit", "group:penstock-loader", "describe", True),
        ("audit", "group:penstock-loader", "read", False),
        ("registry", "topic:_schemas", "write", True),
        ("registry", "topic:_audit", "read", False),
        ("broker", "topic:_audit", "write", True),
    ):
        ended = penstock("acls", "test", user, operation, resource)
        assert ended.returncode == (0 if may else 1), (user, operation, resource, ended)


def variables(environment: Path) -> Iterator[tuple[str, str]]:
    """As a shell has them that has read this file."""
    said = subprocess.run(
        ["/bin/sh", "-c", '. "$1"; env', "sh", str(environment)],
        env={},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in said.splitlines():
        name, _, value = line.partition("=")
        if name.startswith("PENSTOCK_"):
            yield name, value
