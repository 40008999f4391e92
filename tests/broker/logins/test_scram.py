"""SCRAM on the broker's side: by the standard's example, with our own client, and against liars."""

import asyncio
import statistics
import time
from base64 import b64decode, b64encode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.logins.exchange import LoginRefused, StepResult
from broker.logins.scram import ScramExchange
from client.connection.logins import scram
from ground.logins.scram import ScramCredential, ScramMechanism
from tests.broker.logins.saying import kept, known, log_in, users

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
ALICE = known(users(alice="secret"))
FIRST = b"n,,n=alice,r=cnonce"


def attempt(mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, ALICE, lambda: "snonce")


def said(exchange: ScramExchange, *messages: bytes) -> StepResult:
    async def talk() -> StepResult:
        answer = StepResult(b"")
        for each in messages:
            answer = await exchange.step(each)
        return answer

    return asyncio.run(talk())


def why(exchange: ScramExchange, *messages: bytes) -> str:
    with pytest.raises(LoginRefused) as refusal:
        said(exchange, *messages)
    return refusal.value.why


def final(
    password: str, first: bytes, answer: bytes, *, header: str = "biws", more: str = ""
) -> bytes:
    """What a client that knows the password says at last; `more` stands before the proof."""
    bare = first.decode().split(",", 2)[2]
    nonce, salt, iterations = (each[2:] for each in answer.decode().split(","))
    kept = SHA_256.salted(password, b64decode(salt), int(iterations))
    unproven = f"c={header},r={nonce}{more}"
    signed = f"{bare},{answer.decode()},{unproven}".encode()
    key = SHA_256.hmac(kept, b"Client Key")
    credential = ScramCredential.of_salted(SHA_256, kept, b64decode(salt), int(iterations))
    signature = SHA_256.hmac(credential.stored_key, signed)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{unproven},p={b64encode(proof).decode()}".encode()


def test_the_standards_example() -> None:
    """RFC 7677, section 3."""
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.of_password(SHA_256, "pencil", salt, 4096)
    exchange = ScramExchange(
        SHA_256, known({"user": {SHA_256: credential}}), lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    theirs = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answer = said(exchange, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert answer == StepResult(f"r={theirs},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    last = said(
        exchange, f"c=biws,r={theirs},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert last == StepResult(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("name", ["alice", "a=b,c", "ä ö", "=2C", "x" * 128])
def test_our_own_client(mechanism: ScramMechanism, name: str) -> None:
    exchange = ScramExchange(mechanism, known({name: kept("se,cr=et ß")}))
    saying = scram(mechanism.hash_name, name, "se,cr=et ß", lambda: "abc")
    assert asyncio.run(log_in(saying, exchange)).principal == name


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("alice", "Secret", "wrong password"),
        ("alice", "", "wrong password"),
        ("Alice", "secret", "unknown user"),
        ("bob", "secret", "unknown user"),
    ],
)
def test_who_is_wrong(mechanism: ScramMechanism, name: str, password: str, reason: str) -> None:
    saying = scram(mechanism.hash_name, name, password, lambda: "abc")
    with pytest.raises(LoginRefused) as refusal:
        asyncio.run(log_in(saying, ScramExchange(mechanism, ALICE)))
    assert reason in refusal.value.why
    assert refusal.value.user == name
    assert refusal.value.message == (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )


def test_a_password_for_the_other_mechanism_is_none() -> None:
    exchange = ScramExchange(SHA_512, known({"alice": kept("secret", SHA_256)}))
    with pytest.raises(LoginRefused, match=r"invalid credentials") as refusal:
        asyncio.run(log_in(scram("sha512", "alice", "secret", lambda: "abc"), exchange))
    assert "has no SCRAM-SHA-512 password" in refusal.value.why


def test_nobody_sees_who_is_there() -> None:
    def answer(name: str) -> list[str]:
        return said(attempt(), f"n,,n={name},r=c".encode()).answer.decode().split(",")

    there, nobody, again, other = (answer(each) for each in ("alice", "bob", "bob", "bert"))
    assert there[2] == nobody[2] == "i=4096"
    assert len(there[1]) == len(nobody[1])
    assert nobody == again
    assert nobody[1] != other[1]


@pytest.mark.not_quick("it measures")
def test_nor_by_the_clock() -> None:
    def seconds(name: str) -> float:
        exchange = attempt()
        first = f"n,,n={name},r=c".encode()
        last = final("wrong", first, said(exchange, first).answer)
        began = time.thread_time()
        assert why(exchange, last)
        return time.thread_time() - began

    times: dict[str, list[float]] = {"alice": [], "bob": []}
    for _ in range(40):
        for name, found in times.items():
            found.append(seconds(name))
    medians = [statistics.median(found) for found in times.values()]
    assert max(medians) < 1.5 * min(medians)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "malformed"),
        (b"n,,n=alice", "malformed"),
        (b"n,,r=c,n=alice", "malformed"),
        (b"n,,n=,r=c", "malformed"),
        (b"n,,n=alice,r=", "malformed"),
        (b"n,,n=alice,r=a b", "malformed"),
        (b"n,,n=alice,r=" + b"c" * 1025, "malformed"),
        (b"n,,n=a=lice,r=c", "malformed name"),
        (b"n,,n=a=2clice,r=c", "malformed name"),
        (b"n,,n=al\0ice,r=c", "malformed"),
        (b"n,,m=must,n=alice,r=c", "malformed"),
        (b"p=tls-unique,,n=alice,r=c", "malformed"),
        (b"n,a=root,n=alice,r=c", "authorization id differs"),
        (b"n,,n=alice,r=c,tokenauth=true", "delegation tokens"),
        (b"n,,n=alice,r=c,x=y,tokenauth=TRUE", "delegation tokens"),
        (b"n,,n=alice,r=c\xff", "not UTF-8"),
        (b"n,,n=" + b"a" * 5000 + b",r=c", "5009 bytes"),
    ],
)
def test_a_first_message_that_is_none(first: bytes, reason: str) -> None:
    assert reason in why(attempt(), first)


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (b"n,,n=alice,r=c", "biws"),
        (b"y,,n=alice,r=c", "eSws"),
        (b"n,a=alice,n=alice,r=c", "bixhPWFsaWNlLA=="),
        (b"n,,n=alice,r=c,trace=on", "biws"),
    ],
)
def test_what_a_first_message_may_hold(first: bytes, header: str) -> None:
    exchange = attempt()
    last = final("secret", first, said(exchange, first).answer, header=header)
    assert said(exchange, last).principal == "alice"


def test_a_last_message_with_extensions() -> None:
    exchange = attempt()
    last = final("secret", FIRST, said(exchange, FIRST).answer, more=",x=y")
    assert said(exchange, last).principal == "alice"


def test_a_last_message_that_does_not_fit() -> None:
    answer = said(attempt(), FIRST).answer
    right = final("secret", FIRST, answer)
    assert said(attempt(), FIRST, right).principal == "alice"
    for spoilt, reason in (
        (b"", "malformed"),
        (right.partition(b",p=")[0], "malformed"),
        (right.replace(b"r=cnonce", b"r=dnonce"), "another attempt"),
        (right.replace(b"r=cnoncesnonce", b"r=cnonce"), "another attempt"),
        (right.replace(b"r=cnoncesnonce", b"r=cnoncesnoncex"), "another attempt"),
        (final("secret", FIRST, answer, header="eSws"), "contradict each other"),
        (final("secret", FIRST, answer, header="===="), "contradict each other"),
        (right[:-8] + b"AAAAAAA=", "wrong password"),
        (right.partition(b",p=")[0] + b",p=AAAA", "wrong password"),
        (right.partition(b",p=")[0] + b",p====", "wrong password"),
    ):
        assert reason in why(attempt(), FIRST, spoilt)


def test_what_was_overheard_is_worth_nothing() -> None:
    exchange = ScramExchange(SHA_256, ALICE)
    last = final("secret", FIRST, said(exchange, FIRST).answer)
    assert said(exchange, last).principal == "alice"
    assert "another attempt" in why(ScramExchange(SHA_256, ALICE), FIRST, last)


parts = st.sampled_from(
    [b"n,,", b"y,,", b"n=", b"alice", b"r=", b"c=biws", b"p=", b",", b"=2C", b"=", b"\0", b"\xff",
     b"cnoncesnonce", b"a=", b"tokenauth=true", b"AAAA"]
)  # fmt: skip
messages = st.one_of(st.binary(max_size=300), st.lists(parts, max_size=12).map(b"".join))


@given(first=messages, last=messages)
@example(first=FIRST, last=FIRST)
def test_nothing_but_a_refusal_comes_of_nonsense(first: bytes, last: bytes) -> None:
    try:
        assert said(attempt(), first).principal == ""
    except LoginRefused:
        return
    with pytest.raises(LoginRefused):
        said(attempt(), first, last)
