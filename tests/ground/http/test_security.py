"""How a server is asked over HTTP: what may be configured, and when secrets are read."""

from base64 import b64encode
from pathlib import Path

import pytest

from ground.http.client import HttpClient, NotReached, parse_url
from ground.http.security import HttpAccess, HttpSecurity, check_scheme
from ground.logins.secrets import NoSecret
from ground.tls.client import Tls


def test_nothing_said_is_nobody() -> None:
    assert HttpAccess(HttpSecurity()).headers == {}


def test_a_password_is_read_for_every_request(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("först\n")
    access = HttpAccess(HttpSecurity(user="me", password_file=str(path)))
    assert access.headers == {"Authorization": f"Basic {b64encode('me:först'.encode()).decode()}"}
    path.write_text("second")
    assert access.headers == {"Authorization": f"Basic {b64encode(b'me:second').decode()}"}


def test_a_token_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "abc.def")
    access = HttpAccess(HttpSecurity(token_env="A_TOKEN"))
    assert access.headers == {"Authorization": "Bearer abc.def"}


@pytest.mark.parametrize("token", ["a\nX-More: 1", "é", "x" * 20_000])
def test_what_is_no_token_is_not_sent_and_not_shown(tmp_path: Path, token: str) -> None:
    path = tmp_path / "token"
    path.write_text(token)
    with pytest.raises(NoSecret) as error:
        _ = HttpAccess(HttpSecurity(token_file=str(path))).headers
    assert token not in str(error.value)


def test_without_its_secret_nobody_is_asked(tmp_path: Path) -> None:
    access = HttpAccess(HttpSecurity(user="me", password_file=str(tmp_path / "none")))
    url = parse_url("https://127.0.0.1:1")
    with HttpClient(url, access=access) as client, pytest.raises(NotReached) as error:
        client.ask("GET", "/", within=5)
    assert "none cannot be read" in error.value.why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"user": "me"}, "`user` needs one of"),
        ({"user": "me", "password_file": "a", "password_env": "b"}, "`user` needs one of"),
        ({"password_file": "a"}, "needs a `user`"),
        ({"user": "me", "password_file": "a", "token_file": "b"}, "set only one of `user`"),
        ({"token_env": "a", "token_file": "b"}, "set only one of `user`"),
        ({"user": "m:e", "password_file": "a"}, "colon"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        HttpSecurity(**said)  # type: ignore[arg-type]


def test_a_secret_goes_over_tls_unless_that_is_allowed() -> None:
    login = HttpSecurity(token_env="A")
    check_scheme(login, "https")
    check_scheme(HttpSecurity(token_env="A", without_tls=True), "http")
    check_scheme(HttpSecurity(), "http")
    with pytest.raises(ValueError, match="without_tls"):
        check_scheme(login, "http")
    with pytest.raises(ValueError, match="https://"):
        check_scheme(HttpSecurity(tls=Tls()), "http")
