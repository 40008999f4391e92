"""What a configuration may say of how one gets in, and what is refused before anybody is asked."""

import pytest

from client.connection.security import Login, Mechanism, Security
from ground.tls.client import Tls


def test_what_is_whole() -> None:
    Login(mechanism=Mechanism.SCRAM_SHA_256, user="me", password_file="/x")
    Login(mechanism=Mechanism.SCRAM_SHA_512, user="me", password_env="X")
    Login(mechanism=Mechanism.OAUTHBEARER, token_file="/x")
    bearer = Login(
        mechanism=Mechanism.OAUTHBEARER, token_url="https://x", client_id="me",
        client_secret_env="X",
    )  # fmt: skip
    Login(mechanism=Mechanism.GSSAPI)  # as whoever has logged in by `kinit`
    Login(mechanism=Mechanism.GSSAPI, ccache="/x", principal="me")
    Security(login=Login(mechanism=Mechanism.GSSAPI, principal="me@X", keytab="/x", service="k"))
    Security(tls=Tls(), login=bearer)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"mechanism": "PLAIN"}, "`mechanism: PLAIN` needs user"),
        ({"mechanism": "SCRAM-SHA-256", "user": "me"}, "one of password_file or password_env"),
        (
            {"mechanism": "PLAIN", "user": "me", "password_file": "/x", "password_env": "X"},
            "one of password_file or password_env",
        ),
        (
            {"mechanism": "PLAIN", "user": "me", "password_file": "/x", "token_file": "/t"},
            "takes only user, password_file and password_env",
        ),
        ({"mechanism": "OAUTHBEARER"}, "one of token_file or token_url"),
        ({"mechanism": "OAUTHBEARER", "token_file": "/t", "user": "me"}, "takes only token_file"),
        ({"mechanism": "OAUTHBEARER", "token_url": "https://x"}, "`token_url` needs `client_id`"),
        (
            {"mechanism": "OAUTHBEARER", "token_url": "https://x", "client_id": "me"},
            "`token_url` needs `client_id`",
        ),
        ({"mechanism": "GSSAPI", "keytab": "/x"}, "`keytab` needs the `principal`"),
        (
            {"mechanism": "GSSAPI", "principal": "me", "keytab": "/x", "ccache": "/y"},
            "set one of them",
        ),
        ({"mechanism": "GSSAPI", "service": "kafka/host"}, "the part of a principal"),
        ({"mechanism": "GSSAPI", "user": "me"}, "takes only principal, keytab, ccache and serv"),
        (
            {"mechanism": "PLAIN", "user": "me", "password_file": "/x", "service": "kafka2"},
            "takes only user, password_file and password_env",
        ),
    ],
)
def test_what_is_not(said: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Login(**{**said, "mechanism": Mechanism(said["mechanism"])})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "login",
    [
        Login(mechanism=Mechanism.PLAIN, user="me", password_env="X"),
        Login(mechanism=Mechanism.OAUTHBEARER, token_file="/x"),
    ],
)
def test_what_would_be_readable_on_the_way_needs_tls(login: Login) -> None:
    with pytest.raises(ValueError, match="add `tls`, or `without_tls: true`"):
        Security(login=login)
    Security(tls=Tls(), login=login)
