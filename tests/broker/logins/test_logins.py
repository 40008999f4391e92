"""The logins of a broker as its connections have them: attempts, their ends, and what fails."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.logins.exchange import LoginRefused
from broker.logins.failures import MOST_HELD_OF_ADDRESS
from broker.logins.logins import Login, Logins
from broker.logins.refusals import MOST_REPORTED, RefusedLogins
from broker.logins.tokens import TokenRules
from client.connection.logins import Exchange, exchange
from client.connection.security import Login as ClientsLogin
from client.connection.security import Mechanism
from harness.processes.event_loops import on_event_loop
from harness.processes.hand_clock import HandClock
from ledger.health import Problem, ProblemKind
from tests.broker.logins.issuer import AUDIENCE, ISSUER, claims, key_set, token
from tests.broker.logins.saying import KEY, users

EVERY = frozenset(Mechanism) - {Mechanism.GSSAPI}


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> TokenRules:
    path: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_bytes(key_set())
    return TokenRules(issuer=ISSUER, audience=AUDIENCE, keys_file=str(path))


@contextmanager
def serving(rules: TokenRules | None = None) -> Iterator[Logins]:
    found = users(alice="secret")
    logins = Logins(EVERY, users=lambda: found, decoy_key=KEY, tokens=rules)
    try:
        yield logins
    finally:
        logins.close()


def client(mechanism: str, password: str = "secret", user: str = "alice") -> Exchange:
    if mechanism == Mechanism.OAUTHBEARER:
        said = claims(exp=time.time() + 600, nbf=None, sub=user)
        shown = token(said if password == "secret" else said | {"iss": "mallory"})
        return exchange(ClientsLogin(mechanism=Mechanism.OAUTHBEARER, token_file="/x"), shown)
    login = ClientsLogin(mechanism=Mechanism(mechanism), user=user, password_env="X")
    return exchange(login, password)


async def talk(login: Login, saying: Exchange) -> None:
    data = next(saying)
    while True:
        answer = await login.step(data)
        try:
            data = saying.send(answer)
        except StopIteration:
            return


@on_event_loop
async def test_logins_that_are_refused_again_and_again_are_reported_until_one_is_not() -> None:
    with serving() as logins:
        clock = HandClock()
        logins.refused = RefusedLogins(clock)
        for at, password, reported in (
            *((0, "guess", 0), (11, "guess", 0), (22, "guess", 1), (30, "secret", 0)),
            *((40, "guess", 0), (50, "guess", 0), (100, "guess", 1)),
        ):
            clock.now = float(at)
            with contextlib.suppress(LoginRefused):
                await talk(logins.begin("PLAIN", "1.2.3.4"), client("PLAIN", password))
            assert len(logins.refused.problems) == reported
        (problem,) = logins.refused.problems
        assert problem == Problem(
            ProblemKind.LOGINS, "alice from 1.2.3.4", "wrong password", 40_000
        )
        clock.now += 121.0
        assert logins.refused.problems == []


def test_of_many_refused_logins_few_are_reported_those_of_known_users_first() -> None:
    clock = HandClock()
    refused = RefusedLogins(clock)
    for _ in range(3):
        for number in range(1_500):
            refused.add(f"{number} " * 999, "5.6.7.8", "unknown user")
        for number in range(900):
            refused.add(str(number), "5.6.7.8", "unknown user")
        refused.add("alice", "1.2.3.4", "wrong password")
        clock.now += 15.0
    assert refused.problems == []  # the others have displaced it meanwhile
    for _ in range(3):
        for number in range(900):
            refused.add(str(number), "5.6.7.8", "unknown user")
        refused.add("alice", "1.2.3.4", "wrong password")
        clock.now += 15.0
    assert len(refused.problems) == MOST_REPORTED
    assert refused.problems[0].subject == "alice from 1.2.3.4"


@pytest.mark.parametrize("mechanism", sorted(EVERY))
@on_event_loop
async def test_a_login_from_beginning_to_end(rules: TokenRules, mechanism: str) -> None:
    with serving(rules) as logins:
        assert logins.mechanisms == EVERY
        login = logins.begin(mechanism, "1.2.3.4")
        assert (login.done, login.principal, login.ends_at) == (False, "", None)
        await talk(login, client(mechanism))
        assert (login.done, login.principal) == (True, "alice")
        if mechanism == Mechanism.OAUTHBEARER:
            assert login.ends_at is not None
            assert 590 < login.ends_at - time.monotonic() < 640
        else:
            assert login.ends_at is None
        with pytest.raises(LoginRefused) as refusal:
            await login.step(b"more")
        assert "after the end" in refusal.value.why
        assert not login.done


@pytest.mark.parametrize("mechanism", sorted(EVERY))
@on_event_loop
async def test_a_refusal_is_held_back_and_ends_the_attempt(
    rules: TokenRules, mechanism: str
) -> None:
    with serving(rules) as logins:
        login = logins.begin(mechanism, "1.2.3.4")
        began = time.monotonic()
        with pytest.raises(LoginRefused):
            await talk(login, client(mechanism, "wrong"))
        assert time.monotonic() - began >= 0.09
        assert not login.done
        assert login.principal == ""
        for _ in range(3):
            with pytest.raises(LoginRefused):
                await login.step(next(client(mechanism)))
        await talk(logins.begin(mechanism, "1.2.3.4"), client(mechanism))


@on_event_loop
async def test_without_rules_no_token_is_believed() -> None:
    with serving() as logins:
        assert logins.mechanisms == EVERY - {Mechanism.OAUTHBEARER}
        for mechanism in ("OAUTHBEARER", "GSSAPI", "", "scram-sha-512"):
            with pytest.raises(ValueError, match="not enabled"):
                logins.begin(mechanism, "1.2.3.4")


@pytest.mark.not_quick("hashes very many passwords")
@on_event_loop
async def test_a_flood_from_one_address_costs_the_others_nothing() -> None:
    """Hundreds of guesses at once, by PLAIN and SCRAM; somebody else logs in meanwhile."""

    with serving() as logins:

        async def guess(mechanism: str, number: int) -> str:
            try:
                await talk(logins.begin(mechanism, "6.6.6.6"), client(mechanism, f"guess{number}"))
            except LoginRefused as refusal:
                return refusal.why
            return "let in"

        flood = [
            asyncio.ensure_future(guess(mechanism, number))
            for number in range(300)
            for mechanism in ("PLAIN", "SCRAM-SHA-512")
        ]
        await asyncio.sleep(0.05)
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            began = time.monotonic()
            login = logins.begin(mechanism, "1.2.3.4")
            await talk(login, client(mechanism))
            assert login.done
            assert (
                time.monotonic() - began < 5.0
            )  # seconds are for a slow machine: no delay is in it
        # And who guesses is not looked at while so much of him is held back.
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        reasons = [each.result() for each in flood if each.done()]
        assert "let in" not in reasons
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


@on_event_loop
async def test_more_than_so_many_at_once_are_refused_unseen() -> None:
    with serving() as logins:

        async def fail() -> None:
            await logins.begin("PLAIN", "6.6.6.6").step(b"nonsense")

        held = [asyncio.ensure_future(fail()) for _ in range(MOST_HELD_OF_ADDRESS)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(LoginRefused) as refusal:
            await talk(logins.begin("SCRAM-SHA-512", "6.6.6.6"), client("SCRAM-SHA-512"))
        assert "rejected unseen" in refusal.value.why
        other = logins.begin("SCRAM-SHA-512", "1.2.3.4")
        await talk(other, client("SCRAM-SHA-512"))
        assert other.done
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)


@on_event_loop
async def test_who_says_more_before_the_answer_is_refused() -> None:
    with serving() as logins:
        login = logins.begin("PLAIN", "1.2.3.4")
        first = asyncio.ensure_future(login.step(next(client("PLAIN"))))
        await asyncio.sleep(0)
        with pytest.raises(LoginRefused):
            await login.step(b"more")
        with pytest.raises(LoginRefused):
            await first
        assert not login.done
