"""SCRAM's arithmetic: by the example of RFC 7677, and as the text that Apache Kafka keeps."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.logins.scram import (
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    check_iterations,
    new_salt,
    of_code,
)

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
THEIRS = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SIGNED = (
    f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={THEIRS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={THEIRS}"
).encode()
PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")


def pencil(mechanism: ScramMechanism = ScramMechanism.SHA_256) -> ScramCredential:
    return ScramCredential.of_password(mechanism, "pencil", SALT, 4096)


def test_the_standards_example() -> None:
    kept = pencil()
    assert kept.proves(PROOF, SIGNED)
    assert kept.signature(SIGNED) == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_proof_that_is_none() -> None:
    kept = pencil()
    assert not kept.proves(PROOF, SIGNED + b"x")
    assert not kept.proves(b"", SIGNED)
    assert not kept.proves(PROOF + b"x", SIGNED)
    assert not kept.proves(bytes([PROOF[0] ^ 1]) + PROOF[1:], SIGNED)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_the_password_and_no_other(mechanism: ScramMechanism) -> None:
    kept = pencil(mechanism)
    assert kept.matches("pencil")
    assert not kept.matches("pencils")
    assert not kept.matches("")


def test_what_kafka_wrote_is_understood() -> None:
    """The password is `pencil`; the text is in the form of Kafka's ScramCredentialUtils."""
    text = (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    read = ScramCredential.read(ScramMechanism.SHA_256, text)
    assert read == pencil()
    assert read.text() == text


@given(password=st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
def test_as_text_and_back(password: str) -> None:
    for mechanism in ScramMechanism:
        kept = ScramCredential.of_password(mechanism, password, new_salt(), FEWEST_ITERATIONS)
        assert ScramCredential.read(mechanism, kept.text()) == kept


@given(text=st.text(max_size=200))
def test_other_text_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected `salt="):
        ScramCredential.read(ScramMechanism.SHA_512, text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("iterations=4096", "iterations=1"),
        ("iterations=4096", "iterations=1000001"),
        ("iterations=4096", "iterations=٤٠٩٦"),
        ("iterations=4096", "iterations=4096,iterations=4096"),
        ("salt=W22ZaJ0SNY7soEsUEjb6gQ==", "salt="),
        ("salt=W22Za", "salt=%%%%%"),
        ("server_key=", "server_key=AAAA"),
        ("stored_key=", "stored-key="),
    ],
)
def test_what_is_not_as_it_must_be(before: str, after: str) -> None:
    text = pencil().text()
    assert before in text
    with pytest.raises(ValueError, match=r"^expected `salt="):
        ScramCredential.read(ScramMechanism.SHA_256, text.replace(before, after))


def test_it_shows_nothing_of_itself() -> None:
    kept = pencil()
    for shown in (repr(kept), str(kept), f"{kept}"):
        assert "4096" in shown
        for secret in (kept.salt, kept.stored_key, kept.server_key):
            assert repr(secret) not in shown
            assert secret.hex() not in shown


def test_kafkas_bounds_and_numbers() -> None:
    check_iterations(FEWEST_ITERATIONS)
    check_iterations(MOST_ITERATIONS)
    with pytest.raises(ValueError, match="Too few"):
        check_iterations(FEWEST_ITERATIONS - 1)
    with pytest.raises(ValueError, match="Too many"):
        check_iterations(MOST_ITERATIONS + 1)
    assert [of_code(each) for each in (0, 1, 2, 3)] == [
        None,
        ScramMechanism.SHA_256,
        ScramMechanism.SHA_512,
        None,
    ]
