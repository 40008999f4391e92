"""What is said of a right that is missing: which it is, on what, and who needs it."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from client.connection.bootstrap import Access
from client.connection.metadata import ClusterMetadata, TopicMetadata
from client.connection.security import Login, Mechanism, Security
from client.connection.tokens import named_by
from client.errors import ErrorCode, NotAllowed, Refused, check
from client.rights import TO_SEE, Right, on_cluster, on_group, on_topic
from ground.tls.client import Tls
from wire.acls import Operation

ALICE = "User:alice"


def jwt(claims: object) -> str:
    parts = ({"alg": "RS256"}, claims, "signature")
    return ".".join(
        urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts
    )


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (on_topic(ALICE, "shop", Operation.WRITE), "User:alice needs WRITE on topic shop"),
        (
            on_topic(ALICE, "shop", *TO_SEE),
            "User:alice needs DESCRIBE, READ or WRITE on topic shop",
        ),
        (
            on_topic(ALICE, "shop", Operation.WRITE, creates=True),
            "User:alice needs WRITE on topic shop, and CREATE if it does not exist",
        ),
        (on_topic(ALICE, "", Operation.WRITE), "User:alice needs WRITE on a topic"),
        (on_group(ALICE, "g", Operation.READ), "User:alice needs READ on group g"),
        (
            on_cluster(ALICE, Operation.DESCRIBE_CONFIGS),
            "User:alice needs DESCRIBE_CONFIGS on the cluster",
        ),
    ],
)
def test_a_right_in_words(right: Right, said: str) -> None:
    assert str(right) == said


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    ],
)
def test_whoever_is_not_allowed_is_told_what_is_missing(code: ErrorCode) -> None:
    right = on_topic(ALICE, "shop", Operation.READ)
    with pytest.raises(NotAllowed) as refused:
        check(code, "shop-0", "Topic authorization failed.", needs=right)
    assert str(refused.value) == "shop-0: not allowed: User:alice needs READ on topic shop"
    assert (refused.value.code, refused.value.right) == (code, right)
    assert not refused.value.retriable


def test_other_refusals_have_nothing_to_do_with_rights() -> None:
    right = on_topic(ALICE, "shop", Operation.READ)
    with pytest.raises(Refused) as refused:
        check(ErrorCode.invalid_request, "shop-0", needs=right)
    assert not isinstance(refused.value, NotAllowed)


def test_a_topic_that_is_not_shown_is_asked_for_with_what_is_wanted_of_it() -> None:
    hidden = TopicMetadata("shop", None, (), error=ErrorCode.topic_authorization_failed)
    known = ClusterMetadata(ALICE, topics={"shop": hidden})
    with pytest.raises(NotAllowed, match=r"User:alice needs READ on topic shop$"):
        known.topic("shop", Operation.READ)
    with pytest.raises(NotAllowed, match=r"needs DESCRIBE, READ or WRITE on topic shop$"):
        known.topic("shop")


def test_who_one_is_to_the_brokers(tmp_path: Path) -> None:
    password = Login(mechanism=Mechanism.SCRAM_SHA_512, user="alice", password_file="/nowhere")
    assert Access(Security(login=password)).who == "User:alice"
    tls = Tls(certificate="/etc/penstock/agent.pem")
    assert Access(Security(tls=tls)).who == "the owner of certificate /etc/penstock/agent.pem"
    assert Access(Security()).who == "User:ANONYMOUS (there is no login)"


def test_who_a_token_names_is_known_when_it_has_been_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    login = Login(mechanism=Mechanism.OAUTHBEARER, token_file=str(file), without_tls=True)
    access = Access(Security(login=login))
    assert access.who == f"the owner of the token of {file}"
    assert access.credentials is not None
    file.write_text(jwt({"sub": "alice"}))
    access.credentials.secret()
    assert access.who == "User:alice"
    file.write_text("opaque")
    access.credentials.secret()
    assert access.who == f"the owner of the token of {file}"


@pytest.mark.parametrize(
    "token",
    ["", "opaque", "a.b", "a.b.c", "a.%%%.c", jwt([]), jwt({"sub": 7}), jwt({}), "é.é.é"],
)
def test_a_token_that_names_nobody(token: str) -> None:
    assert named_by(token) == ""


def test_what_a_token_says_cannot_break_a_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt({"sub": "a\nlice\x1b[31m" + "x" * 10_000}))
    login = Login(mechanism=Mechanism.OAUTHBEARER, token_file=str(file), without_tls=True)
    access = Access(Security(login=login))
    assert access.credentials is not None
    access.credentials.secret()
    assert access.who.isprintable()
    assert len(access.who) < 300
