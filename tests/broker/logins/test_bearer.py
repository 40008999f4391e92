"""OAUTHBEARER on the broker's side: every way in which a token can be wrong."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.logins.bearer import BearerExchange
from broker.logins.exchange import LoginRefused, StepResult
from broker.logins.signing_keys import AGAIN_S, KeysFile, KeysUrl, SigningKeys
from broker.logins.tokens import BadToken, TokenRules, Tokens
from client.connection.logins import exchange as clients_exchange
from client.connection.security import Login, Mechanism
from harness.logins.certificates import Authority
from harness.processes.event_loops import on_event_loop
from harness.processes.hand_clock import HandClock
from harness.processes.waiting import wait_until_async
from tests.broker.logins.issuer import (
    AUDIENCE,
    ISSUER,
    NOW,
    OTHER_RSA,
    P_256,
    P_384,
    RSA,
    SECRET,
    KeysPage,
    claims,
    key_set,
    keys_page,
    signed_by_hand,
    token,
)
from tests.broker.logins.saying import log_in

RULES = TokenRules(issuer=ISSUER, audience=AUDIENCE, keys_file="keys.json")


class Source:
    """A set that the test has in its hands."""

    good_for = 3_600.0

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)
        self.asked = 0

    def read(self) -> bytes:
        self.asked += 1
        return self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]


def tokens(rules: TokenRules = RULES, body: bytes = b"", now: float = NOW) -> Tokens:
    clock = HandClock(5_000.0)
    return Tokens(rules, SigningKeys(Source(body or key_set()), clock), lambda: now, clock)


def principal(shown: str, rules: TokenRules = RULES, body: bytes = b"", now: float = NOW) -> str:
    return asyncio.run(tokens(rules, body, now).check(shown)).principal


def why(shown: str, rules: TokenRules = RULES, body: bytes = b"", now: float = NOW) -> str:
    with pytest.raises(BadToken) as error:
        principal(shown, rules, body, now)
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "RS256"),
        (RSA, "RS384"),
        (RSA, "RS512"),
        (RSA, "PS256"),
        (P_256, "ES256"),
        (P_384, "ES384"),
    ],
)
def test_a_good_token(key: Any, algorithm: str) -> None:
    assert principal(token(key=key, algorithm=algorithm)) == "alice"


def test_an_audience_of_several_and_a_name_in_another_claim() -> None:
    assert principal(token(claims(aud=["others", AUDIENCE]))) == "alice"
    rules = msgspec.structs.replace(RULES, user_claim="azp")
    assert principal(token(claims(azp="web-1", sub=None)), rules) == "web-1"
    assert "no user name in `azp`" in why(token(), rules)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (claims(iss="https://mallory.example"), "another issuer"),
        (claims(iss=ISSUER + "/"), "another issuer"),
        (claims(iss=None), "lacks"),
        (claims(aud="others"), "another audience"),
        (claims(aud=["others"]), "another audience"),
        (claims(aud=[]), "another audience"),
        (claims(aud=None), "lacks"),
        (claims(aud={"a": 1}), "lacks"),
        (claims(exp=None), "lacks"),
        (claims(exp="tomorrow"), "lacks"),
        (claims(exp=NOW - 31), "expired"),
        (claims(exp=-1e300), "expired"),
        (claims(nbf=NOW + 31), "not valid yet"),
        (claims(nbf="now"), "lacks"),
        (claims(sub=None), "no user name"),
        (claims(sub=""), "no user name"),
        (claims(sub=7), "no user name"),
        (claims(sub="x" * 257), "no user name"),
        (claims(sub="al\nice"), "unprintable"),
        (b"[]", "lacks"),
        (b"not json", "lacks"),
        (b"[" * 5_000, "lacks"),
        (b'{"exp":1e999}', "lacks"),
    ],
)
def test_what_a_token_says_wrongly(said: Any, reason: str) -> None:
    assert reason in why(token(said))


def test_until_when_it_is_good() -> None:
    """The issuer's clock may be off."""
    for within in (claims(exp=NOW - 29), claims(nbf=NOW + 29)):
        assert principal(token(within)) == "alice"
    strict = msgspec.structs.replace(RULES, leeway_seconds=0.0)
    assert "expired" in why(token(claims(exp=NOW)), strict)
    for exp, lasts in ((NOW + 600, 630), (NOW + 1e9, 86_400), (1e300, 86_400)):
        assert asyncio.run(tokens().check(token(claims(exp=exp)))).ends_at == 5_000.0 + lasts


def unsigned(header: dict[str, Any]) -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims()).encode())
    return ".".join(urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def test_a_signature_that_is_none() -> None:
    good = token()
    head, payload, signature = good.split(".")
    other_payload = token(claims(sub="root")).split(".")[1]
    for shown, reason in (
        (unsigned({"alg": "none", "kid": "rsa"}), "signed with 'none'"),
        (unsigned({"alg": "RS256", "kid": "rsa"}), "signature is invalid"),
        (token(key=SECRET, algorithm="HS256", kid="rsa"), "signed with 'HS256'"),
        (token(key=OTHER_RSA), "signature is invalid"),
        (f"{head}.{other_payload}.{signature}", "signature is invalid"),
        (f"{head}.{payload}.{signature[:-4]}AAAA", "signature is invalid"),
        (f"{head}.{payload}", "signature is invalid"),
        (f"{good}.x", "signature is invalid"),
        (f"{head}..{signature}", "signature is invalid"),
        (token(kid="gone"), "names key 'gone'"),
        (token(key=P_256, algorithm="ES256", kid="rsa"), "names key 'rsa'"),
        (token(key=RSA, kid="p256"), "names key 'p256'"),
        (signed_by_hand({"alg": "RS256", "kid": "rsa", "x": 1}), ""),
        (signed_by_hand({"alg": "RS256", "kid": "rsa", "x": 1, "crit": ["x"]}), "is invalid"),
        ("", "not a token"),
        ("x", "not a token"),
        ("a.b.c", "not a token"),
        ("." * 3, "not a token"),
        (unsigned({"kid": "rsa"}), "not a token"),
        (unsigned({"alg": ["RS256"], "kid": "rsa"}), "not a token"),
        (unsigned({"alg": "RS256", "kid": {"a": 1}}), "not a token"),
    ):
        if reason:
            assert reason in why(shown), shown
        else:
            assert principal(shown) == "alice"


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    """The old trick: HS256 with the text of the issuer's public key."""
    said = unsigned({"alg": "HS256", "kid": "rsa"})
    signature = hmac.digest(RSA.as_pem(private=False), said[:-1].encode(), "sha256")
    shown = said + urlsafe_b64encode(signature).decode().rstrip("=")
    assert "signed with 'HS256'" in why(shown)


def test_a_token_without_the_name_of_its_key() -> None:
    assert principal(token(kid=None)) == "alice"  # there is one that fits
    two = key_set(RSA, P_256, RSA)
    assert "names no key" in why(token(kid=None), body=two)


@pytest.mark.parametrize(
    "body",
    [
        key_set(use="enc"),
        key_set(RSA, alg="RS512"),
        key_set(SECRET),
        b'{"keys":[]}',
        b'{"keys":[{"kty":"RSA","kid":"rsa","n":"AQAB","e":"AQAB"}]}',
        b'{"keys":[{"kty":"RSA","kid":"rsa"},{"kty":7},{}]}',
        b'{"keys":{}}',
        b"[]",
        b"nonsense",
        b"[" * 10_000,
        b'{"keys":[' + b" " * (1024 * 1024) + b"]}",
    ],
)
@on_event_loop
async def test_a_set_without_the_key(body: bytes) -> None:
    with pytest.raises((BadToken, LoginRefused)):
        await BearerExchange(tokens(body=body)).step(f"n,,\1auth=Bearer {token()}\1\1".encode())


def test_keys_that_cannot_be_read_leave_the_others() -> None:
    shown = json.loads(key_set())
    shown["keys"][:0] = [{"kty": "EC", "crv": "P-256", "x": "x"}, {"kty": "OKP"}, {"kty": []}]
    assert principal(token(), body=json.dumps(shown).encode()) == "alice"


@on_event_loop
async def test_a_key_that_the_issuer_has_since_is_fetched_once_in_a_while() -> None:
    clock = HandClock(5_000.0)
    source = Source(key_set(P_256), key_set(P_256), key_set(P_256, RSA))
    keys = SigningKeys(source, clock)
    shown = Tokens(RULES, keys, lambda: NOW, clock)
    for _ in range(100):
        with pytest.raises(BadToken, match="names key 'rsa'"):
            await shown.check(token())
    assert source.asked == 1
    clock.now += AGAIN_S
    many = [shown.check(token()) for _ in range(50)]
    results = await asyncio.gather(*many, return_exceptions=True)
    assert all(isinstance(each, BadToken) for each in results)
    assert source.asked == 2
    clock.now += AGAIN_S
    assert (await shown.check(token())).principal == "alice"
    assert source.asked == 3


@on_event_loop
async def test_a_key_that_the_issuer_took_back_goes_within_the_hour() -> None:
    clock = HandClock(5_000.0)
    source = Source(key_set(), key_set(P_256))
    shown = Tokens(RULES, SigningKeys(source, clock), lambda: NOW, clock)
    assert (await shown.check(token())).principal == "alice"
    clock.now += 3_601
    await shown.check(token())  # nobody waits for the fetch
    await wait_until_async(lambda: source.asked == 2)
    await asyncio.sleep(0.1)
    with pytest.raises(BadToken):
        await shown.check(token())


@on_event_loop
async def test_a_page_that_fails_leaves_the_old_keys(caplog: pytest.LogCaptureFixture) -> None:
    with keys_page() as page:
        clock = HandClock(5_000.0)
        shown = Tokens(RULES, SigningKeys(KeysUrl(page.url), clock), lambda: NOW, clock)
        page.status = 500
        for _ in range(3):
            with pytest.raises(LoginRefused) as refusal:
                await say(BearerExchange(shown), token())
            assert refusal.value.is_ours
            assert "answered with status 500" in refusal.value.why
            clock.now += AGAIN_S
        page.status = 200
        assert (await shown.check(token())).principal == "alice"
        assert page.asked == 4
        page.body = b"nonsense"
        for _ in range(2):
            clock.now += AGAIN_S
            with pytest.raises(BadToken):
                await shown.check(token(kid="other"))
        assert (await shown.check(token())).principal == "alice"
    assert caplog.text.count("cannot load the issuer's keys") == 2


def test_a_page_is_believed_by_its_certificate(tmp_path: Path) -> None:
    ours, others = (Authority(tmp_path / name, name) for name in ("ours", "others"))

    async def check(page: KeysPage) -> None:
        clock = HandClock(5_000.0)
        believing = SigningKeys(KeysUrl(page.url, str(ours.ca)), clock)
        assert (await Tokens(RULES, believing, lambda: NOW, clock).check(token())).principal
        doubting = SigningKeys(KeysUrl(page.url, str(others.ca)), clock)
        with pytest.raises(LoginRefused) as refusal:
            await say(BearerExchange(Tokens(RULES, doubting, lambda: NOW, clock)), token())
        assert refusal.value.is_ours
        assert "certificate" in refusal.value.why

    with keys_page(ours.sign("issuer")) as page:
        asyncio.run(check(page))
        assert page.asked == 1


@on_event_loop
async def test_keys_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"

    clock = HandClock(5_000.0)
    shown = Tokens(RULES, SigningKeys(KeysFile(path), clock), lambda: NOW, clock)
    with pytest.raises(LoginRefused, match="OAUTHBEARER") as refusal:
        await say(BearerExchange(shown), token())
    assert "no such file" in refusal.value.why
    path.write_bytes(key_set())
    clock.now += AGAIN_S
    assert (await shown.check(token())).principal == "alice"


# What is said


async def say(exchange: BearerExchange, shown: str) -> StepResult:
    return await exchange.step(f"n,,\1auth=Bearer {shown}\1\1".encode())


@on_event_loop
async def test_our_own_client() -> None:
    login = Login(mechanism=Mechanism.OAUTHBEARER, token_file="/x")
    said = await log_in(clients_exchange(login, token()), BearerExchange(tokens()))
    assert said == StepResult(b"", "alice", 5_630.0)


@pytest.mark.parametrize(
    "message",
    [
        "n,,\1auth=Bearer {}\1\1",
        "y,,\1auth=bearer  {}\1\1",
        "n,a=alice,\1auth=Bearer {}\1\1",
        "n,,\1auth=Bearer {}\1logicalCluster=lkc-1\1identityPoolId=pool\1\1",
        "n,,\1host=here\1port=9092\1auth=Bearer {}\1\1",
    ],
)
def test_how_a_token_may_be_shown(message: str) -> None:
    exchange = BearerExchange(tokens())
    assert asyncio.run(exchange.step(message.format(token()).encode())).principal == "alice"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "malformed OAUTHBEARER"),
        ("\1", "malformed OAUTHBEARER"),
        ("n,,\1auth=Bearer {}\1", "malformed OAUTHBEARER"),
        ("n,,auth=Bearer {}", "malformed OAUTHBEARER"),
        ("p=x,,\1auth=Bearer {}\1\1", "malformed OAUTHBEARER"),
        ("n,,\1auth=Basic {}\1\1", "no token"),
        ("n,,\1auth=Bearer\1\1", "no token"),
        ("n,,\1\1", "no token"),
        ("n,,\1auth=Bearer {}\1auth=Bearer {}\1\1", "no token"),
        ("n,a=root,\1auth=Bearer {}\1\1", "authorization id differs"),
        ("n,,\1x=" + "y" * 40_000 + "\1\1", "bytes"),
    ],
)
def test_what_is_no_token(message: str, reason: str) -> None:
    with pytest.raises(LoginRefused) as refusal:
        asyncio.run(BearerExchange(tokens()).step(message.replace("{}", token()).encode()))
    assert reason in refusal.value.why
    assert not refusal.value.last_word


@on_event_loop
async def test_a_refused_token_is_told_as_the_standard_has_it() -> None:
    with pytest.raises(LoginRefused) as refusal:
        await say(BearerExchange(tokens()), token(claims(exp=1)))
    assert json.loads(refusal.value.last_word) == {"status": "invalid_token"}


@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode())))
def test_nothing_but_a_refusal_comes_of_nonsense(message: bytes) -> None:
    for each in (message, b"n,,\1auth=Bearer " + message + b"\1\1"):
        with pytest.raises(LoginRefused):
            asyncio.run(BearerExchange(tokens()).step(each))


@given(place=st.integers(0, 2), at=st.integers(0, 300), letter=st.sampled_from("Aa9-_.+/= "))
def test_a_spoilt_token_is_none(place: int, at: int, letter: str) -> None:
    good = token()
    parts = good.split(".")
    part = parts[place]
    at %= len(part) - 1  # the last letter may have bits that mean nothing
    parts[place] = part[:at] + letter + part[at + 1 :]
    if ".".join(parts) != good:
        with pytest.raises(BadToken):
            principal(".".join(parts))


# Its configuration


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": ""}, "must not be empty"),
        ({"audience": ""}, "must not be empty"),
        ({"user_claim": ""}, "must not be empty"),
        ({"keys_file": ""}, "`keys_url` or `keys_file`"),
        ({"keys_url": "http://x/"}, "`keys_url` or `keys_file`"),
        ({"keys_ca": "ca.pem"}, "`keys_ca` needs"),
        ({"keys_file": "", "keys_url": "ftp://x"}, "http"),
        ({"leeway_seconds": -1.0}, "between 0 and 300"),
        ({"leeway_seconds": 301.0}, "between 0 and 300"),
    ],
)
def test_rules_that_are_none(changes: dict[str, Any], reason: str) -> None:
    said = {"issuer": ISSUER, "audience": AUDIENCE, "keys_file": "keys.json"} | changes
    with pytest.raises(msgspec.ValidationError, match=reason):
        msgspec.convert(said, TokenRules)
