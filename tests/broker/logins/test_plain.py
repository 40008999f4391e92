"""PLAIN on the broker's side, and the passwords that are hashed for it beside the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.logins.exchange import LoginRefused, StepResult
from broker.logins.known_users import Checked, KnownUsers
from broker.logins.password_checks import PasswordChecks
from broker.logins.plain import PlainExchange
from cluster.records.users import Users
from ground.logins.scram import ScramCredential, ScramMechanism
from harness.processes.event_loops import on_event_loop
from tests.broker.logins.saying import KEY, kept, known, users

ALICE = known(users(alice="secret"))


@contextmanager
def checking(pause: Callable[[str], float] = lambda _host: 0.0) -> Iterator[PasswordChecks]:
    passwords = PasswordChecks(pause, asyncio.get_running_loop())
    try:
        yield passwords
    finally:
        passwords.close()


def said(message: bytes, known_users: KnownUsers = ALICE) -> StepResult:
    async def step() -> StepResult:
        with checking() as passwords:
            return await PlainExchange(known_users, passwords, "1.2.3.4").step(message)

    return asyncio.run(step())


def why(message: bytes, known_users: KnownUsers = ALICE) -> str:
    with pytest.raises(LoginRefused, match="with SASL mechanism PLAIN") as refusal:
        said(message, known_users)
    return refusal.value.why


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
@pytest.mark.parametrize("mechanisms", [(), (ScramMechanism.SHA_256,), (ScramMechanism.SHA_512,)])
def test_the_password_is_checked_by_what_scram_keeps(
    message: bytes, mechanisms: tuple[ScramMechanism, ...]
) -> None:
    assert said(message, known({"alice": kept("secret", *mechanisms)})) == StepResult(b"", "alice")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0alice\0Secret", "wrong password"),
        (b"\0bob\0secret", "unknown user"),
        (b"\0Alice\0secret", "unknown user"),
        (b"root\0alice\0secret", "authorization id differs"),
        (b"", "malformed PLAIN"),
        (b"alice\0secret", "malformed PLAIN"),
        (b"\0alice\0secret\0", "malformed PLAIN"),
        (b"\0\0secret", "empty name"),
        (b"\0alice\0", "empty name"),
        (b"\0alice\0" + b"x" * 1025, "empty name"),
        (b"\0alice\0" + b"x" * 10_000, "10007 bytes"),
        (b"\0alice\0\xff", "not UTF-8"),
    ],
)
def test_who_is_wrong(message: bytes, reason: str) -> None:
    found = why(message)
    assert reason in found
    assert "secret" not in found.lower()


@given(st.one_of(st.binary(max_size=60), st.text(max_size=20).map(lambda text: text.encode())))
def test_nothing_but_a_refusal_comes_of_nonsense(message: bytes) -> None:
    assert why(message)


class Counting(ScramCredential):
    """A credential that notes who hashes passwords for it."""

    threads: ClassVar[list[int]] = []

    def matches(self, password: str) -> bool:
        self.threads.append(threading.get_ident())
        return super().matches(password)


def counted() -> Checked:
    one = ALICE.of_any("alice").credential
    Counting.threads.clear()
    return Checked(
        Counting(one.mechanism, one.salt, one.stored_key, one.server_key, one.iterations),
        exists=True,
    )


@on_event_loop
async def test_a_password_that_was_right_is_hashed_once() -> None:
    checked = counted()

    with checking() as passwords:
        together = [passwords.matches("1.2.3.4", checked, "secret") for _ in range(200)]
        assert all(await asyncio.gather(*together))
        assert await passwords.matches("5.6.7.8", checked, "secret")
        assert not await passwords.matches("1.2.3.4", checked, "wrong")
        assert not await passwords.matches("1.2.3.4", checked, "wrong")

    assert len(Counting.threads) == 3


@on_event_loop
async def test_another_password_makes_the_old_one_worthless() -> None:
    current: list[Users] = [users(alice="old")]
    changing = KnownUsers(lambda: current[0], KEY)

    with checking() as passwords:

        async def log_in(password: bytes) -> StepResult:
            return await PlainExchange(changing, passwords, "1.2.3.4").step(b"\0alice\0" + password)

        assert (await log_in(b"old")).principal == "alice"
        current[0] = users(alice="new")
        with pytest.raises(LoginRefused):
            await log_in(b"old")
        assert (await log_in(b"new")).principal == "alice"
        current[0] = MappingProxyType({})
        with pytest.raises(LoginRefused):
            await log_in(b"new")


@on_event_loop
async def test_one_address_does_not_keep_the_others_waiting() -> None:
    """A hundred guesses are there first; one at a time is hashed of them."""
    order: list[str] = []

    async def guess(passwords: PasswordChecks, host: str, password: str) -> None:
        try:
            await passwords.matches(host, ALICE.of_any("alice"), password)
            order.append(host)
        except LoginRefused as refusal:
            order.append("refused" if refusal.is_ours else refusal.why)

    with checking() as passwords:
        loud = [guess(passwords, "6.6.6.6", f"guess {number}") for number in range(100)]
        quiet = [guess(passwords, f"1.1.1.{number}", "mine") for number in range(3)]
        await asyncio.gather(*loud, *quiet)

    heard = [each for each in order if each != "refused"]
    assert len(order) - len(heard) == 100 - 33  # one is hashed, so many wait
    # Addresses take turns; a hashing thread that has to wait for a processor is a few turns late.
    assert max(heard.index(f"1.1.1.{number}") for number in range(3)) < 20


@on_event_loop
async def test_where_guesses_failed_the_next_waits() -> None:
    with checking(lambda _host: 0.3) as passwords:
        began = time.monotonic()
        for number in range(3):
            alice = ALICE.of_any("alice")
            assert not await passwords.matches("6.6.6.6", alice, f"guess {number}")
        assert time.monotonic() - began >= 0.6


@on_event_loop
async def test_the_event_loop_goes_on_meanwhile() -> None:
    checked = counted()
    with checking() as passwords:
        await passwords.matches("1.2.3.4", checked, "secret")
    assert len(Counting.threads) == 1
    assert threading.get_ident() not in Counting.threads


@on_event_loop
async def test_who_waits_when_it_ends_is_not_left_waiting() -> None:
    with checking() as passwords:
        waiting = [
            asyncio.ensure_future(passwords.matches("1.1.1.1", ALICE.of_any("alice"), str(number)))
            for number in range(10)
        ]
        await asyncio.sleep(0)
        passwords.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert any(isinstance(each, asyncio.CancelledError) for each in results)
        with pytest.raises(LoginRefused):
            await passwords.matches("1.1.1.1", ALICE.of_any("alice"), "late")
