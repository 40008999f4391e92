"""`penstock signing-keys`, as somebody types it, and the folder that an audit gets."""

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.configuration.enrolled_keys import read
from ground.files.directory_lock import DirectoryLock
from ground.signatures.keys import SigningKey
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.penstock.running import Ended, penstock

LATER = 4_102_444_800_000  # 2100-01-01


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def signing_keys(folder: Path, *arguments: str, stdin: str = "") -> Ended:
    return penstock("signing-keys", *arguments, "--keys", str(folder), stdin=stdin)


def output(folder: Path, *arguments: str, stdin: str = "") -> str:
    ended = signing_keys(folder, *arguments, stdin=stdin)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def refused(folder: Path, *arguments: str, stdin: str = "", code: int = 1) -> str:
    ended = signing_keys(folder, *arguments, stdin=stdin)
    assert (ended.returncode, ended.stdout) == (code, "")
    (line,) = ended.stderr.splitlines()
    return line


def made(program: str, directory: Path, host: str) -> dict[str, str]:
    ended = penstock("signing-keys", "make", program, str(directory), "--host", host, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    document: dict[str, str] = json.loads(ended.stdout)
    return document


def enrolled(folder: Path, *keys: dict[str, str], options: tuple[str, ...] = ()) -> dict[str, Any]:
    lines = "".join(f"{json.dumps(key)}\n" for key in keys)
    answer = output(folder, "enrol", "--from", "-", "--replace", "--json", *options, stdin=lines)
    document: dict[str, Any] = json.loads(answer)
    return document


def fingerprints(rows: list[dict[str, str]]) -> set[str]:
    return {row["fingerprint"] for row in rows}


def listed(folder: Path) -> dict[tuple[str, str], str]:
    rows = json.loads(output(folder, "list", "--json"))
    return {(row["host"], row["fingerprint"]): row["state"] for row in rows}


def test_a_key_is_made_once_and_has_the_fingerprint_of_openssl(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "broker"
    key = made("broker", directory, "broker-1")
    assert made("broker", directory, "broker-1") == key
    assert stat.S_IMODE((directory / "signing-key").stat().st_mode) == 0o600
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", directory / "signing-key.pub", "-outform", "DER"],
        check=True,
        capture_output=True,
    ).stdout
    digest = subprocess.run(["sha256sum"], input=der, check=True, capture_output=True).stdout
    assert digest.decode().split()[0] == key["fingerprint"]
    existing = penstock("signing-keys", "make", "broker", str(directory), "--existing")
    assert existing.stdout == f"{key['fingerprint']}\n"
    nothing = penstock("signing-keys", "make", "broker", str(tmp_path / "none"), "--existing")
    assert (nothing.returncode, (tmp_path / "none").exists()) == (1, False)
    (directory / "signing-key").chmod(0o644)
    ended = penstock("signing-keys", "make", "broker", str(directory))
    assert (ended.returncode, "set its mode to 600" in ended.stderr) == (1, True)


def test_an_agent_signs_with_the_key_that_was_made_for_it(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess
) -> None:
    agent = agent_of(tmp_path / "agent", running_broker, running_registry, "logs")
    directory = agent.data_dir
    key = made("agent", directory, "web-1")
    with agent:
        wait_until(lambda: agent.status() is not None, within=90, what="the agent answers")
        assert made("agent", directory, "web-1") == key
    assert made("agent", directory, "web-1") == key
    # A key that is not its journal's is never the agent's.
    for path in directory.glob("journal-*"):
        path.unlink()
    assert made("agent", directory, "web-1")["fingerprint"] != key["fingerprint"]


def agent_of(
    directory: Path, broker: BrokerProcess, registry: RegistryProcess, topic: str
) -> AgentProcess:
    directory.mkdir()
    (directory / "app.log").write_text("a line\n")
    inputs = [{"paths": [str(directory / "app.log")], "topic": topic}]
    return AgentProcess(directory, brokers=broker.bootstrap, registry=registry.url, inputs=inputs)


def test_an_audit_believes_those_whose_keys_the_folder_has(
    tmp_path: Path,
    folder: Path,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
) -> None:
    known, unknown = (
        agent_of(tmp_path / f"{new_topic}-{name}", running_broker, running_registry, new_topic)
        for name in ("known", "unknown")
    )
    keys = {agent.host: made("agent", agent.data_dir, agent.host) for agent in (known, unknown)}
    enrolled(folder, keys[known.host])
    audit = AuditProcess(
        tmp_path / "audit",
        brokers=running_broker.bootstrap,
        registry=running_registry.url,
        settings={"signatures": {"keys_dir": str(folder), "require": True}},
    )

    def answer() -> Any:
        ended = penstock("audit", "keys", "--audit", audit.url, "--json")
        return json.loads(ended.stdout) if ended.returncode == 0 else {"journals": [], "faults": []}

    def signed() -> dict[str, str]:
        rows = answer()["journals"]
        signed_rows = [row for row in rows if row["host"] in keys and row["fingerprint"]]
        return {row["host"]: row["fingerprint"] for row in signed_rows}

    def faults() -> set[tuple[str, str]]:
        rows = answer()["faults"]
        return {(row["host"], row["kind"]) for row in rows if row["host"] in keys}

    with known, unknown, audit:
        wait_until(lambda: known.host in signed(), within=90, what="the enrolled key counts")
        unknown_key = (unknown.host, "unknown key")
        wait_until(lambda: unknown_key in faults(), within=90, what="the other one is a fault")
        assert {host for host, _ in faults()} == {unknown.host}
        assert signed() == {known.host: keys[known.host]["fingerprint"]}
        # Without a restart, for what is stated from then on.
        enrolled(folder, keys[unknown.host])
        wait_until(
            lambda: signed().get(unknown.host) == keys[unknown.host]["fingerprint"],
            within=90,
            what="the key counts once it is enrolled",
        )


def test_an_enrolled_key_is_one_that_an_audit_accepts(tmp_path: Path, folder: Path) -> None:
    key = SigningKey.new().public
    file = tmp_path / "signing-key.pub"
    file.write_bytes(key.pem)
    text = f"agent on web-1: {key.fingerprint}"
    assert output(folder, "enrol", "web-1", "--key", str(file)) == f"enrolled {text}\n"
    assert output(folder, "enrol", "web-1", "--key", str(file)) == f"unchanged: {text}\n"
    assert read(folder).accepts(key.raw, "web-1", LATER)
    assert not read(folder).accepts(key.raw, "web-2", 0)
    (path,) = folder.glob("*/*")
    assert path == folder / "web-1" / f"agent-{key.fingerprint[:16]}.pub"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

    since = ("--since", "2026-11-20T12:00:00Z", "--reason", "stolen")
    assert output(folder, "revoke", "web-1", *since) == f"revoked {text}\n"
    noon = 1_795_176_000_000
    assert read(folder).accepts(key.raw, "web-1", noon - 1)
    assert not read(folder).accepts(key.raw, "web-1", noon)
    line = f"{key.fingerprint} 2026-11-20T12:00:00Z  # web-1 agent: stolen\n"
    assert (folder / "revoked").read_text() == line
    # It keeps the earliest time, and does not come back by itself.
    assert output(folder, "revoke", key.fingerprint.upper()) == (
        f"{key.fingerprint.upper()} is revoked already\n"
    )
    assert (folder / "revoked").read_text() == line
    message = refused(folder, "enrol", "web-1", "--key", str(file))
    assert f"{text} is revoked: remove its line from {folder / 'revoked'}" in message
    output(folder, "revoke", "web-1", "--since", "2026-11-19T12:00:00Z")
    (changed,) = (folder / "revoked").read_text().splitlines()
    assert changed.startswith(f"{key.fingerprint} 2026-11-19T12:00:00Z")


def test_a_reinstalled_host_replaces_its_key_from_now_on(tmp_path: Path, folder: Path) -> None:
    former, loader, other = (
        made("agent", tmp_path / "1", "web-1"),
        made("loader", tmp_path / "2", "web-1"),
        made("agent", tmp_path / "3", "web-2"),
    )
    assert fingerprints(enrolled(folder, former, loader, other)["new"]) == fingerprints(
        [former, loader, other]
    )
    begin = time.time_ns() // 1_000_000
    newer = made("agent", tmp_path / "4", "web-1")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    dry = enrolled(folder, newer, options=("--dry-run",))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    answer = enrolled(folder, newer, other)
    assert {**answer, "unchanged": []} == dry
    assert fingerprints(answer["new"]) == {newer["fingerprint"]}
    assert fingerprints(answer["replaced"]) == {former["fingerprint"]}
    keys = read(folder)
    (raw,) = keys.revoked
    assert begin <= keys.revoked[raw] <= time.time_ns() // 1_000_000 + 1000
    assert keys.accepts(raw, "web-1", begin - 1)
    states = listed(folder)
    assert states["web-1", former["fingerprint"]] == "revoked"
    assert states["web-1", loader["fingerprint"]] == "enrolled"
    assert states["web-2", other["fingerprint"]] == "enrolled"
    # Once more changes nothing.
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert enrolled(folder, newer)["new"] == []
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == after


def test_a_shared_key_is_replaced_when_the_last_host_has_another(
    tmp_path: Path, folder: Path
) -> None:
    """Two hosts that load the same tables: the second loads with the former key meanwhile."""
    former, newer = (
        [made("loader", tmp_path / name, host) for host in ("hdp-1", "hdp-2")]
        for name in ("former", "newer")
    )
    enrolled(folder, *former)
    assert enrolled(folder, newer[0])["replaced"] == []
    message = refused(folder, "revoke", "hdp-2")
    assert "hdp-1 has the same key of loader: to revoke it for both, pass its fingerpr" in message
    assert fingerprints(enrolled(folder, newer[1])["replaced"]) == {former[0]["fingerprint"]}
    assert set(listed(folder).values()) == {"enrolled", "revoked"}


def test_a_key_gets_the_name_of_its_program(tmp_path: Path, folder: Path) -> None:
    """The audit's own export does not tell the brokers of a host apart."""
    keys = [made("broker", tmp_path / name, "host") for name in ("1", "2")]
    enrolled(folder, *keys[:1], options=())
    enrolled(folder, {**keys[0], "program": "broker"}, {**keys[1], "program": "broker-2"})
    assert fingerprints(enrolled(folder, keys[0])["replaced"]) == set()
    renamed = enrolled(folder, {**keys[0], "program": "broker-1"})
    assert (renamed["new"], renamed["replaced"]) == ([], [])
    names = sorted(path.name.rpartition("-")[0] for path in folder.glob("host/*"))
    assert names == ["broker-1", "broker-2"]


WRONG: list[tuple[Callable[[Path], tuple[str, ...]], int, str]] = [
    (lambda _: ("enrol", "web-1"), 2, "pass HOST with --key FILE, or --from FILE"),
    (lambda path: ("enrol", "--key", str(path)), 2, "pass HOST with --key FILE"),
    (lambda path: ("enrol", "web-1", "--key", str(path)), 1, "contains no public key as PEM"),
    (lambda path: ("enrol", "--from", str(path)), 1, "line 1: expected a line of `penstock"),
    (lambda _: ("revoke", "web-1"), 1, "keys does not exist: enrol a key, or pass --keys DIR"),
    (lambda _: ("revoke", "x", "--since", "soon"), 2, "'soon' is not a time"),
    (lambda _: ("list",), 1, "keys: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG)
def test_wrong_input_is_one_line(
    tmp_path: Path,
    folder: Path,
    arguments: Callable[[Path], tuple[str, ...]],
    code: int,
    message: str,
) -> None:
    file = tmp_path / "file"
    file.write_text("nonsense\n")
    assert message in refused(folder, *arguments(file), code=code)
    assert not list(folder.glob("*/*"))


@pytest.mark.parametrize("host", ["../web", "", "revoked", "a/b", ".web", "web.pub", "w" * 254])
def test_a_host_that_is_no_name_of_a_folder(tmp_path: Path, folder: Path, host: str) -> None:
    key = made("broker", tmp_path / "data", "web")
    line = json.dumps({**key, "host": host})
    assert "is not a host name" in refused(folder, "enrol", "--from", "-", stdin=line)
    program = json.dumps({**key, "program": "../x"})
    assert "is not the name of a program" in refused(folder, "enrol", "--from", "-", stdin=program)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_folder_that_an_audit_would_reject_is_not_changed(tmp_path: Path, folder: Path) -> None:
    key = made("broker", tmp_path / "data", "web")
    enrolled(folder, key)
    (folder / "revoked").write_text("nonsense\n")
    message = refused(folder, "revoke", "web")
    assert "revoked, line 1: expected a fingerprint and a time" in message
    assert (folder / "revoked").read_text() == "nonsense\n"
    assert "no key of web-9" in refused(folder_of(tmp_path, key), "revoke", "web-9")
    with DirectoryLock(folder / ".lock"):
        assert os.access(folder, os.W_OK)


def folder_of(tmp_path: Path, key: dict[str, str]) -> Path:
    folder = tmp_path / "other"
    enrolled(folder, key)
    return folder
