"""Who is let in; and that slow hashes keep nobody out who was in before or comes from elsewhere."""

import asyncio
import hashlib
import logging
import time
from base64 import b64encode
from pathlib import Path

import pytest

from ground.logins.password_file import PasswordFile, SlowHash
from ground.logins.token_file import TokenFile
from harness.processes.event_loops import on_event_loop
from registry.access.authentication import Authenticator, LoginMethods
from registry.access.callers import PRINCIPAL, Caller, Peer
from registry.access.permissions import Operation, Permission, Permissions
from registry.errors import ErrorAnswer

PERMISSIONS = Permissions([Permission(principal="alice", subjects="*", may=(Operation.READ,))])


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.fixture(scope="module")
def lines() -> str:
    """Of users: hashing takes its time."""
    return f"alice:{SlowHash.of('right')}\nregistry:{SlowHash.of('right')}\n"


@pytest.fixture
def locks(tmp_path: Path, lines: str) -> LoginMethods:
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    users.write_text(lines)
    tokens.write_text(f"ci:sha256:{hashlib.sha256(b'token').hexdigest()}\n")
    return LoginMethods(PasswordFile(users), TokenFile(tokens), registries=("registry",))


async def called(
    door: Authenticator, headers: dict[str, str], *, host: str = "10.0.0.1", passed_on: bool = False
) -> Caller:
    found = door.caller(Peer(host), headers, passed_on=passed_on)
    return found if isinstance(found, Caller) else await found


@pytest.mark.not_quick("hashes very many passwords")
@on_event_loop
async def test_a_flood_of_wrong_passwords_stops_nobody_else(locks: LoginMethods) -> None:
    door = Authenticator(locks, PERMISSIONS)
    await called(door, basic("alice", "right"))

    async def guess(number: int) -> int:
        try:
            await called(door, basic(f"user-{number}", "wrong"), host="10.6.6.6")
        except ErrorAnswer as error:
            return error.status
        return 200

    guesses = [asyncio.create_task(guess(number)) for number in range(1_000)]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    for _ in range(100):
        assert isinstance(
            door.caller(Peer("10.6.6.6"), basic("alice", "right"), passed_on=False), Caller
        )
    known = time.monotonic() - began
    began = time.monotonic()
    await called(door, basic("registry", "right"), host="10.0.0.2")
    new = time.monotonic() - began
    refused = [each.result() for each in guesses if each.done()]
    for each in guesses:
        each.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    door.close()
    assert refused.count(429) >= 700  # at once: no more than some may wait
    assert known < 5
    assert new < 20


def test_many_who_come_at_once_with_one_password_cost_one_hash(locks: LoginMethods) -> None:
    async def run() -> list[str]:
        door = Authenticator(locks, PERMISSIONS)
        found = await asyncio.gather(*(called(door, basic("alice", "right")) for _ in range(60)))
        door.close()
        return [each.name for each in found]

    began = time.thread_time()
    assert asyncio.run(run()) == ["alice"] * 60
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("headers", "passed_on", "outcome"),
    [
        ({}, False, 40101),
        ({"authorization": "Bearer token"}, False, "ci"),
        ({"authorization": "bearer  token "}, False, "ci"),
        ({"authorization": "Bearer other"}, False, 40101),
        ({"authorization": "Basic " + "A" * 20_000}, False, 40101),
        (basic("alice\0", "right"), False, 40101),
        (basic("alice", "right" + "x" * 2_000), False, 40101),
        (basic("alice", "right") | {PRINCIPAL: "root"}, False, 40302),
        (basic("alice", "right"), True, 40302),
        ({PRINCIPAL: "root"}, True, 40101),
        (basic("registry", "right") | {PRINCIPAL: "al%20ice"}, True, "al ice"),
        (basic("registry", "right"), True, 40302),
        (basic("registry", "right"), False, "registry"),
    ],
)
def test_who_it_is(
    locks: LoginMethods, headers: dict[str, str], outcome: str | int, *, passed_on: bool
) -> None:
    async def run() -> str | int:
        door = Authenticator(locks, PERMISSIONS)
        try:
            return (await called(door, headers, passed_on=passed_on)).name
        except ErrorAnswer as error:
            return error.code
        finally:
            door.close()

    assert asyncio.run(run()) == outcome


def test_a_name_that_nobody_has_is_not_logged(
    locks: LoginMethods, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody may have typed the password there."""

    async def run() -> None:
        door = Authenticator(locks, PERMISSIONS)
        for headers in (basic("my-password", "x"), basic("alice", "my-password")):
            with pytest.raises(ErrorAnswer):
                await called(door, headers)
        door.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    said = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert len(said) == 2
    assert "alice" in said[1]
    assert "my-password" not in "".join(said)
