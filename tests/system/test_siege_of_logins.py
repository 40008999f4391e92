"""Who besieges a broker's logins does not get in, and keeps nobody else out: see `siege_of_logins`,
`failing_logins` and `login_referee`.

HYPOTHESIS_PROFILE=fuzz holds a hundred thousand conversations, with a seed of the day; `make test`
some.
"""

import os
import struct
import time
from collections.abc import Iterator

import pytest

from client.connection.logins import scram
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.secured_broker import SecuredBroker
from tests.system.failing_logins import REFUSALS, endure
from tests.system.login_referee import AUTHENTICATE, HANDSHAKE, Known, judge
from tests.system.raw import METADATA, frame, int16, int32, metadata_body, request, string
from tests.system.secured_alone import secured_for_good_clients
from tests.system.siege_of_logins import siege

pytestmark = pytest.mark.long

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
CONVERSATIONS = 100_000 if LONG else 150
SEED = time.time_ns() if LONG else 7
KNOWN = Known({"alice": "right", "bob": "another"}, {"a-token": "alice"})


@pytest.fixture(scope="module")
def secured(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("siege")
    address = f"{zookeeper.address}/siege"
    with secured_for_good_clients(directory, address) as secured:
        yield secured


@pytest.mark.fuzz
@pytest.mark.slow
def test_nobody_gets_in_by_a_siege(secured: SecuredBroker) -> None:
    found = siege(secured, conversations=CONVERSATIONS, seed=SEED)
    print(found)
    assert not found.wrong, str(found)
    # And it was one: some were right, more were not.
    assert found.kinds["let in"]
    assert found.kinds["refusals"] > CONVERSATIONS // 10
    assert found.kinds["cut off in TLS"] > CONVERSATIONS // 25  # others ended before they were


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "addresses"), [("SCRAM-SHA-512", 200), ("PLAIN", 1)])
def test_ten_thousand_failed_logins_a_minute(
    secured: SecuredBroker, mechanism: str, addresses: int
) -> None:
    """As many of them as this machine can make in some seconds."""
    ends, found = endure(
        secured, mechanism=mechanism, a_minute=10_000, seconds=2.0, addresses=addresses
    )
    print(ends, found)
    assert ends.total() > 20
    assert not ends["let in"]
    assert found.meanwhile is not None
    assert not found.meanwhile.is_standstill
    assert found.counted(*REFUSALS) >= ends["refused"]
    assert found.memory[1] < 200_000_000
    assert found.log_lines < 1_000
    assert secured.broker.ready()
    assert "Traceback" not in secured.broker.log()


# The referee is no friend of the broker's


def authenticated(token: bytes) -> bytes:
    return request(AUTHENTICATE, 1, int32(len(token)) + token)


def answered(token: bytes, error: int = 0) -> bytes:
    """To SaslAuthenticate."""
    body = int16(error) + string(None) + int32(len(token)) + token + struct.pack(">q", 0)
    return frame(int32(1) + body)


AGREED = frame(int32(1) + int16(0) + int32(0))
SERVED = frame(int32(1) + bytes(20))
ASKED = request(METADATA, 1, metadata_body(None))


def begun(mechanism: str) -> bytes:
    return request(HANDSHAKE, 1, string(mechanism))


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0right", "alice"),
        (b"bob\0bob\0another", "bob"),
        (b"\0alice\0wrong", ""),
        (b"\0alice\0another", ""),
        (b"bob\0alice\0right", ""),
        (b"\0nobody\0", ""),
        (b"nonsense", ""),
    ],
)
def test_the_referee_knows_a_password(token: bytes, user: str) -> None:
    sent = begun("PLAIN") + authenticated(token) + ASKED
    judged = judge(KNOWN, sent, AGREED + answered(b"") + SERVED)
    assert (judged.user, bool(judged.breaches)) == (user or "somebody", not user)
    refused = judge(KNOWN, sent, AGREED + answered(b"", 58))
    assert (refused.user, refused.refusals, refused.breaches) == ("", 1, [])


@pytest.mark.parametrize("token", ["a-token", "another-token"])
def test_the_referee_knows_a_token(token: str) -> None:
    said = authenticated(f"n,,\1auth=Bearer {token}\1\1".encode())
    judged = judge(KNOWN, begun("OAUTHBEARER") + said, AGREED + answered(b""))
    assert bool(judged.breaches) == (token != "a-token")


@pytest.mark.parametrize("password", ["right", "wrong"])
def test_the_referee_computes_a_proof(password: str) -> None:
    saying = scram("sha512", "alice", password, lambda: "mine")
    first = next(saying)
    challenge = b"r=mineyours,s=c2FsdA==,i=4096"
    last = saying.send(challenge)
    sent = begun("SCRAM-SHA-512") + authenticated(first) + authenticated(last)
    judged = judge(KNOWN, sent, AGREED + answered(challenge) + answered(b"v=x"))
    assert bool(judged.breaches) == (password != "right")
    # The same words are worth nothing where another nonce was asked for.
    replayed = challenge.replace(b"yours", b"other")
    judged = judge(KNOWN, sent, AGREED + answered(replayed) + answered(b"v=x"))
    assert judged.breaches


def test_the_referee_sees_who_is_served_too_early_and_too_long() -> None:
    right = authenticated(b"\0alice\0right")
    assert judge(KNOWN, ASKED, SERVED).breaches == ["API 3 was answered before a login"]
    early = judge(KNOWN, begun("PLAIN") + ASKED, AGREED + SERVED)
    assert early.breaches == ["API 3 was answered before a login"]
    sent = begun("PLAIN") + authenticated(b"\0alice\0wrong") + right
    late = judge(KNOWN, sent, AGREED + answered(b"", 58) + answered(b""))
    assert "API 36 was answered after a refusal" in late.breaches
    twice = begun("PLAIN") + right + begun("PLAIN") + authenticated(b"\0bob\0another")
    became = judge(KNOWN, twice, (AGREED + answered(b"")) * 2)
    assert became.breaches == ["alice became bob"]


def test_the_referee_counts_answers() -> None:
    judged = judge(KNOWN, begun("PLAIN"), AGREED + AGREED)
    assert judged.breaches == ["2 answers to 1 requests"]
