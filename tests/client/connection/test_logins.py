"""What is said by each mechanism, byte by byte, and what is not believed of a broker."""

import pytest

from client.connection.logins import Exchange, LoginFailed, exchange, scram
from client.connection.security import Login, Mechanism


def said(saying: Exchange, *answers: bytes) -> list[bytes]:
    """All that goes out, if a broker answers like that."""
    sent = [next(saying)]
    for answer in answers:
        try:
            sent.append(saying.send(answer))
        except StopIteration:
            return sent
    return sent


def test_scram_as_the_standard_shows_it() -> None:
    """RFC 7677, section 3."""
    saying = scram("sha256", "user", "pencil", lambda: "rOprNGfwEbeRWgbNEkqO")
    theirs = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert said(
        saying,
        f"r={theirs},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ) == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        f"c=biws,r={theirs},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode(),
    ]


def test_a_name_may_hold_what_scram_uses_itself() -> None:
    assert next(scram("sha512", "a=b,c", "x", lambda: "n")) == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not match the request"),
        (b"r=mine,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not match the request"),
        (b"r=mine+1,s=,i=4096", "invalid SCRAM response"),
        (b"r=mine+1,s=%%%,i=4096", "invalid SCRAM response"),
        (b"r=mine+1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=", "invalid SCRAM response"),
        (b"r=mine+1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "requests 1 SCRAM iterations"),
        (b"r=mine+1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999", "requests 999999999 SCRAM iterations"),
        (b"r=mine+1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=9999999999", "invalid SCRAM response"),
        (b"\xff", "invalid SCRAM response"),
        (b"", "does not match the request"),
    ],
)
def test_an_answer_that_scram_does_not_allow(answer: bytes, why: str) -> None:
    with pytest.raises(LoginFailed, match=why):
        said(scram("sha256", "user", "pencil", lambda: "mine"), answer)


def test_who_does_not_know_the_password_is_no_broker() -> None:
    first = b"r=mine+1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    for final in (b"v=", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"e=other-error", b""):
        with pytest.raises(LoginFailed, match="an impostor"):
            said(scram("sha256", "user", "pencil", lambda: "mine"), first, final)


def test_plain() -> None:
    login = Login(mechanism=Mechanism.PLAIN, user="me", password_env="X")
    assert said(exchange(login, "secret")) == [b"\0me\0secret"]
    with pytest.raises(LoginFailed, match="NUL"):
        said(exchange(login, "se\0cret"))


def test_a_token() -> None:
    login = Login(mechanism=Mechanism.OAUTHBEARER, token_file="/x")
    assert said(exchange(login, "a.b.c"), b"") == [b"n,,\1auth=Bearer a.b.c\1\1"]
    assert said(exchange(login, "a.b.c"), b'{"status":"invalid_token"}') == [
        b"n,,\1auth=Bearer a.b.c\1\1",
        b"\1",
    ]
    with pytest.raises(LoginFailed, match="invalid token"):
        said(exchange(login, "a\nb"))
