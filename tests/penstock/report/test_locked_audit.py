"""Commands and loaders that ask an audit behind locks: how they get in, what they say if not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.logins.certificates import Authority
from tests.audit.http.locked import ALICE, TOKEN, LockedAudit
from tests.penstock.running import penstock


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedAudit]:
    with LockedAudit(tmp_path_factory.mktemp("locked")) as audit:
        yield audit


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def security(folder: Path, **keys: object) -> str:
    path = folder / "security.yaml"
    path.write_text(yaml.safe_dump(keys))
    return str(path)


def test_a_token_or_a_password_gets_in(
    locked: LockedAudit, tmp_path: Path, token_file: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(ALICE[1])
    tls = {"ca": str(locked.ca)}
    for login in (
        {"token_file": str(token_file)},
        {"user": ALICE[0], "password_file": str(password)},
    ):
        told = security(tmp_path, tls=tls, **login)
        ended = penstock("report", "--audit", locked.url, "--audit-security", told)
        assert "pending" in ended.stdout, ended.stderr
        assert ended.returncode == 2
        ended = penstock("status", "--audit", locked.url, "--audit-security", told)
        assert "audit at" not in ended.stdout


def test_credentials_of_a_profile_are_for_its_own_addresses(
    locked: LockedAudit, tmp_path: Path, token_file: Path
) -> None:
    known = {"tls": {"ca": str(locked.ca)}, "token_file": str(token_file)}
    profile = security(tmp_path, audit=locked.url, audit_security=known)
    elsewhere = locked.url.replace("127.0.0.1", "localhost")
    assert elsewhere != locked.url
    for option, code in (((), 2), (("--audit", f"{locked.url}/"), 2), (("--audit", elsewhere), 4)):
        ended = penstock("report", "--profile", profile, *option)
        assert ended.returncode == code, ended.stderr
        assert ("its certificate" in ended.stderr) is (code == 4)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tls": {"ca": "{ca}"}}, "authentication required"),
        ({"tls": {"ca": "{ca}"}, "token_file": "{wrong}"}, "unknown token"),
        ({"tls": {"ca": "{other}"}, "token_file": "{token}"}, "its certificate"),
        ({"token_file": "{token}"}, "its certificate"),
        ({"tls": {"ca": "{ca}"}, "token_file": "{missing}"}, "{missing} cannot be read"),
        ({"tls": {"ca": "{missing}"}, "token_file": "{token}"}, "`ca` {missing}"),
        ({"token": "x"}, "token"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    locked: LockedAudit, tmp_path: Path, token_file: Path, keys: dict[str, object], said: str
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("w" * 64)
    names = {
        "ca": str(locked.ca),
        "other": str(Authority(tmp_path / "other").ca),
        "token": str(token_file),
        "wrong": str(wrong),
        "missing": str(tmp_path / "missing"),
    }
    told = security(tmp_path, **keys)
    text = Path(told).read_text()
    for name, path in names.items():
        text = text.replace(f"'{{{name}}}'", path)
    Path(told).write_text(text)
    ended = penstock("report", "--audit", locked.url, "--audit-security", told)
    assert ended.returncode == 4
    assert said.format_map(names) in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert TOKEN not in ended.stderr
    assert "w" * 64 not in ended.stderr


def test_no_secret_is_sent_in_the_clear(
    locked: LockedAudit, tmp_path: Path, token_file: Path
) -> None:
    told = security(tmp_path, token_file=str(token_file))
    plain = locked.url.replace("https", "http")
    ended = penstock("report", "--audit", plain, "--audit-security", told)
    assert ended.returncode == 4
    assert "would be sent in the clear to an http:// URL" in ended.stderr
