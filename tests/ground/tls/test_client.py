"""Certificates of a client: read anew when they are exchanged, and never given up for bad ones."""

import logging
import os
from pathlib import Path

import pytest

from ground.tls.client import BadTls, ClientTls, Tls
from harness.logins.certificates import Authority


def changed(path: Path, content: bytes) -> None:
    """As an operator does it: another file takes the name."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


def test_new_certificates_are_taken_and_bad_ones_refused_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Authority(tmp_path / "one"), Authority(tmp_path / "other", "another")
    tls = ClientTls(Tls(ca=str(one.ca)))
    first = tls.context
    assert tls.context is first
    changed(one.ca, other.ca.read_bytes())
    second = tls.context
    assert [dict(each[0] for each in ca["subject"]) for ca in second.get_ca_certs()] == [
        {"commonName": "another"}
    ]
    with caplog.at_level(logging.ERROR):
        changed(one.ca, b"nonsense")
        assert tls.context is second
        assert tls.context is second
        one.ca.unlink()
        assert tls.context is second
    assert [record.message.split(" reason")[0] for record in caplog.records] == [
        "cannot load changed certificates, keeping the previous ones"
    ] * 2


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_file_without_certificates(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadTls, match=f"`ca` {path}: "):
        _ = ClientTls(Tls(ca=str(path))).context


def test_a_certificate_with_another_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine, theirs = authority.sign("mine"), authority.sign("theirs")
    tls = Tls(ca=str(authority.ca), certificate=str(mine.certificate), key=str(theirs.key))
    with pytest.raises(BadTls, match="key values mismatch"):
        _ = ClientTls(tls).context
    both = Tls(ca=str(authority.ca), certificate=str(mine.both))
    assert ClientTls(both).context is not None


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.sign("mine")
    locked = tmp_path / "locked.key"
    code = os.spawnlp(
        os.P_WAIT, "openssl", "openssl", "pkcs8", "-topk8", "-passout", "pass:x",
        "-in", str(mine.key), "-out", str(locked),
    )  # fmt: skip
    assert code == 0
    tls = Tls(ca=str(authority.ca), certificate=str(mine.certificate), key=str(locked))
    with pytest.raises(BadTls, match="the key is encrypted"):
        _ = ClientTls(tls).context


def test_a_key_alone() -> None:
    with pytest.raises(ValueError, match="`key` needs a `certificate`"):
        Tls(key="/x")
