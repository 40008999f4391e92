"""Keys in files, beside OpenSSL."""

import hashlib
import stat
import subprocess
from pathlib import Path

import pytest

from ground.signatures.keys import BadKey, PublicKey, SigningKey


def _openssl(*arguments: str | Path) -> bytes:
    return subprocess.run(["openssl", *arguments], capture_output=True, check=True).stdout


def test_a_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "signing-key"
    key = SigningKey.kept(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SigningKey.kept(path).public == key.public
    (tmp_path / "signing-key.pub").unlink()
    assert SigningKey.kept(path).public == PublicKey.of_file(tmp_path / "signing-key.pub")
    (tmp_path / "signing-key.pub").write_bytes(SigningKey.new().public.pem)
    assert SigningKey.kept(path).public == PublicKey.of_file(tmp_path / "signing-key.pub")


def test_a_key_that_others_can_read_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "signing-key"
    SigningKey.kept(path)
    path.chmod(0o640)
    with pytest.raises(BadKey, match="set its mode to 600"):
        SigningKey.kept(path)


def test_a_renewed_key_has_a_public_key_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "signing-key"
    former = SigningKey.kept(path)
    key = SigningKey.renewed(path)
    assert key.public != former.public
    assert SigningKey.of_file(path).public == key.public
    assert PublicKey.of_file(tmp_path / "signing-key.pub") == key.public


def test_openssl_reads_the_files_and_knows_the_fingerprint(tmp_path: Path) -> None:
    key = SigningKey.kept(tmp_path / "signing-key")
    der = _openssl("pkey", "-pubin", "-in", tmp_path / "signing-key.pub", "-outform", "DER")
    assert hashlib.sha256(der).hexdigest() == key.public.fingerprint
    assert _openssl("pkey", "-in", tmp_path / "signing-key", "-pubout") == key.public.pem


def test_openssl_verifies_a_signature(tmp_path: Path) -> None:
    key = SigningKey.kept(tmp_path / "signing-key")
    (tmp_path / "message").write_bytes(b"a message")
    (tmp_path / "signature").write_bytes(key.sign(b"a message"))
    verify: list[str | Path] = [
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        tmp_path / "signing-key.pub",
    ]
    _openssl(*verify, "-in", tmp_path / "message", "-sigfile", tmp_path / "signature")


def test_a_key_made_by_openssl_is_read(tmp_path: Path) -> None:
    _openssl("genpkey", "-algorithm", "ed25519", "-out", tmp_path / "key")
    key = SigningKey.of_file(tmp_path / "key")
    assert key.public.pem == _openssl("pkey", "-in", tmp_path / "key", "-pubout")


def test_signatures() -> None:
    key, other = SigningKey.new(), SigningKey.new()
    signature = key.sign(b"message")
    assert key.public.verifies(signature, b"message")
    assert not key.public.verifies(signature, b"other message")
    assert not other.public.verifies(signature, b"message")
    assert not key.public.verifies(signature[:-1], b"message")
    assert not key.public.verifies(b"", b"message")


@pytest.mark.parametrize("algorithm", ["rsa", "x25519"])
def test_another_kind_of_key_is_rejected(tmp_path: Path, algorithm: str) -> None:
    _openssl("genpkey", "-algorithm", algorithm, "-out", tmp_path / "key")
    _openssl("pkey", "-in", tmp_path / "key", "-pubout", "-out", tmp_path / "key.pub")
    with pytest.raises(BadKey, match="not Ed25519"):
        SigningKey.of_file(tmp_path / "key")
    with pytest.raises(BadKey, match="key"):
        PublicKey.of_file(tmp_path / "key.pub")


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PUBLIC KEY-----\n====\n-----END PUBLIC KEY-----\n"]
)
def test_nonsense_is_rejected_with_the_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nonsense"
    path.write_bytes(content)
    for read in (SigningKey.of_file, PublicKey.of_file):
        with pytest.raises(BadKey, match=str(path)):
            read(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(BadKey, match=str(path)):
            PublicKey.of_file(path)


def test_a_large_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(SigningKey.new().public.pem + b"\n" * 100_000)
    with pytest.raises(BadKey, match="longer than"):
        PublicKey.of_file(path)
