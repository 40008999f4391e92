"""Until when certificates are good: held against a package that reads all of X.509."""

import logging
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from client.connection.security import Login, Mechanism, Security
from ground.http.exposition import certificate_family
from ground.tls.certificate_expiry import (
    CertificateFiles,
    CertificateWatch,
    NotACertificate,
    end_of_der,
    ends_of_pem,
)
from ground.tls.client import Tls
from ground.tls.server import ListenerTls
from harness.processes.waiting import wait_until

KEY = ec.generate_private_key(ec.SECP256R1())
DAY = 86_400.0
NOW = 1_795_000_000.0


def certificate(ends: datetime, name: str = "a") -> bytes:
    """As DER."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(1950, 1, 1, tzinfo=UTC))
        .not_valid_after(ends)
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def pem(*days: float) -> str:
    """Certificates that end so many days after NOW."""
    ends = (datetime.fromtimestamp(NOW, UTC) + timedelta(days=each) for each in days)
    return "".join(ssl.DER_cert_to_PEM_cert(certificate(each)) for each in ends)


@pytest.mark.parametrize(
    "ends",
    [
        datetime(1950, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2000, 2, 29, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
    ids=str,
)
def test_the_end_is_what_the_certificate_says(ends: datetime) -> None:
    assert end_of_der(certificate(ends)) == ends.timestamp()
    assert end_of_der(certificate(ends, "a" * 64)) == ends.timestamp()


def test_those_that_the_system_believes_are_read_as_others_read_them() -> None:
    context = ssl.create_default_context()
    known = zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True)
    for each, read in known:
        assert end_of_der(each) == ssl.cert_time_to_seconds(str(read["notAfter"]))


GOOD = certificate(datetime(2030, 1, 1, tzinfo=UTC))


@given(st.binary(max_size=100))
def test_bytes_that_are_none(content: bytes) -> None:
    with pytest.raises(NotACertificate):
        end_of_der(content)


@given(st.integers(0, 150), st.integers(0, 255))
def test_a_byte_that_is_another(at: int, value: int) -> None:
    spoilt = bytearray(GOOD)
    spoilt[at] = value
    try:
        end_of_der(bytes(spoilt))
    except NotACertificate:
        return


@given(st.integers(0, len(GOOD) - 1))
def test_an_end_that_is_missing(length: int) -> None:
    with pytest.raises(NotACertificate):
        end_of_der(GOOD[:length])


def test_text_around_certificates_and_keys_between_them() -> None:
    key = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    text = b"a key\r\n" + key + pem(1).replace("\n", "\r\n").encode() + b"\xff" + pem(2).encode()
    assert list(ends_of_pem(text)) == [NOW + DAY, NOW + 2 * DAY]
    with pytest.raises(NotACertificate):
        list(ends_of_pem(b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----"))


def test_of_a_chain_the_first_end_counts_of_authorities_the_last(tmp_path: Path) -> None:
    shown, believed, key = (tmp_path / name for name in ("shown", "believed", "key"))
    for each in (shown, believed):
        each.write_text(pem(30, 10, 20))
    key.write_text("no certificate")
    files = CertificateFiles(
        frozenset({str(shown), str(key)}), frozenset({str(believed), str(tmp_path / "none")})
    )
    watch = CertificateWatch(files)
    assert watch.ends() == {str(shown): NOW + 10 * DAY, str(believed): NOW + 30 * DAY}
    family = certificate_family(watch.ends())
    assert family.name == "penstock_certificate_expires_seconds"
    assert {each.labels["file"] for each in family.samples} == {str(shown), str(believed)}


def test_a_file_that_is_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "shown"
    watch = CertificateWatch(CertificateFiles(frozenset({str(file)})))
    assert watch.ends() == {}
    for days in (10, 400):
        new = tmp_path / "new"
        new.write_text(pem(days))
        new.rename(file)
        assert watch.ends() == {str(file): NOW + days * DAY}


def test_it_is_said_two_weeks_before_and_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "shown"
    file.write_text(pem(20))
    watch = CertificateWatch(CertificateFiles(frozenset({str(file)})))
    hour = DAY / 24
    for hours in range(24 * 5):
        watch.look(NOW + hours * hour)
    assert caplog.messages == []
    for hours in range(24 * 6 + 1, 24 * 8 + 1):
        watch.look(NOW + hours * hour)
    said = [f"certificate expires soon file={file} days_left={days}" for days in (13, 12)]
    assert caplog.messages == said
    caplog.clear()
    watch.look(NOW + 21 * DAY)
    assert caplog.messages == [f"certificate has expired file={file} days_left=-1"]
    caplog.clear()
    file.unlink()
    file.write_text(pem(400))
    watch.look(NOW + 21 * DAY + hour)
    assert caplog.messages == []


def test_it_is_said_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "shown"
    ends = datetime.fromtimestamp(time.time(), UTC) + timedelta(days=3)
    file.write_text(ssl.DER_cert_to_PEM_cert(certificate(ends)))
    watch = CertificateWatch(CertificateFiles(frozenset({str(file)})))
    with caplog.at_level(logging.WARNING):
        watch.start()
        wait_until(lambda: bool(caplog.messages), within=10, what="it is said")
        watch.stop()
    assert caplog.messages == [f"certificate expires soon file={file} days_left=2"]
    nothing = CertificateWatch(CertificateFiles())
    nothing.start()
    nothing.stop()


def test_which_files_a_configuration_names() -> None:
    login = Login(
        mechanism=Mechanism.OAUTHBEARER,
        token_url="https://tokens.example",
        token_ca="tokens.pem",
        client_id="penstock",
        client_secret_env="SECRET",
    )
    security = Security(tls=Tls(ca="ca.pem", certificate="me.pem", key="me.key"), login=login)
    found = security.certificate_files
    assert (set(found.shown), set(found.believed)) == ({"me.pem"}, {"ca.pem", "tokens.pem"})
    assert Security().certificate_files == CertificateFiles()
    listener = ListenerTls(certificate="server.pem", client_ca="ca.pem", revoked="revoked.pem")
    both = listener.certificate_files | found
    assert both.shown == frozenset({"me.pem", "server.pem"})
    assert both.believed == frozenset({"ca.pem", "tokens.pem"})
    assert ListenerTls(certificate="s.pem").certificate_files.believed == frozenset()
