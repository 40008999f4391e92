"""What an authority signs is believed by strict verifiers, and what a kill leaves is put right."""

import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from ground.tls.client import Tls, client_context
from ground.tls.server import ListenerTls, server_context
from penstock.certificates.authority import USUAL_DAYS, Authority, Entry, Refused, make_authority
from penstock.certificates.names import BadName, check_host, check_name
from penstock.certificates.x509 import Purpose

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "authority", "an authority", now=NOW)


def signed(
    authority: Authority,
    name: str,
    *,
    hosts: tuple[str, ...] = ("localhost",),
    purpose: Purpose = Purpose.BOTH,
    days: int | None = None,
    now: datetime = NOW,
    force: bool = False,
) -> Entry:
    return authority.sign(name, hosts=hosts, purpose=purpose, days=days, now=now, force=force)


def shake_hands(
    authority: Authority, server: str, client: str, *, host: str = "localhost"
) -> str | None:
    """Whom the server sees. Both verify strictly, by RFC 5280. Raises ssl.SSLError."""
    ca = str(authority.ca)
    listens = server_context(
        ListenerTls(
            certificate=str(authority.file_of(server)), client_ca=ca, revoked=str(authority.revoked)
        )
    )
    calls = client_context(Tls(ca=ca, certificate=str(authority.file_of(client))))
    for context in (listens, calls):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        calls.wrap_bio(to_client, to_server, server_hostname=host),
        listens.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in sides * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = sides[1].getpeercert() or {}
    return dict(each[0] for each in shown["subject"]).get("commonName")


def test_brokers_and_agents_believe_each_other(authority: Authority) -> None:
    signed(authority, "broker-1", hosts=("localhost", "*.dc1.example", "10.0.0.1", "::1"))
    signed(authority, "agent-1", hosts=(), purpose=Purpose.CLIENT)
    for host in ("localhost", "web.dc1.example", "10.0.0.1", "::1"):
        assert shake_hands(authority, "broker-1", "agent-1", host=host) == "agent-1"
    assert shake_hands(authority, "broker-1", "broker-1") == "broker-1"
    with pytest.raises(ssl.SSLError, match="not valid for 'elsewhere'"):
        shake_hands(authority, "broker-1", "agent-1", host="elsewhere")


def test_what_a_certificate_is_for(authority: Authority) -> None:
    signed(authority, "server", purpose=Purpose.SERVER)
    signed(authority, "client", purpose=Purpose.CLIENT)
    assert shake_hands(authority, "server", "client") == "client"
    for server, client in (("server", "server"), ("client", "client")):
        with pytest.raises(ssl.SSLError, match=r"unsuitable certificate purpose|verify failed"):
            shake_hands(authority, server, client)


def test_files_are_for_those_who_need_them(authority: Authority) -> None:
    before = os.umask(0)
    try:
        signed(authority, "broker-1")
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in authority.directory.iterdir()}
    assert modes.pop("ca.pem") == modes.pop("revoked.pem") == 0o644
    assert set(modes) == {"ca.key", "signed.json", "broker-1.pem", ".lock"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(authority.directory.stat().st_mode) == 0o700
    assert b"PRIVATE" not in (authority.directory / "signed.json").read_bytes()
    assert b"PRIVATE" not in authority.ca.read_bytes()


def test_a_renewal_has_a_new_key_and_the_same_names(authority: Authority) -> None:
    first = signed(authority, "broker-1", hosts=("a.example", "10.0.0.1"), days=10)
    file = authority.file_of("broker-1")
    before, inode = x509.load_pem_x509_certificate(file.read_bytes()), file.stat().st_ino
    with file.open("rb") as held:
        second = authority.renew("broker-1", days=None, now=NOW + DAY)
        assert x509.load_pem_x509_certificate(held.read()) == before  # never written into
    after = x509.load_pem_x509_certificate(file.read_bytes())
    assert file.stat().st_ino != inode
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert before.public_key() != after.public_key()
    names = [
        each.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        for each in (before, after)
    ]
    assert names[0] == names[1]
    assert (first.ends + DAY, first.hosts) == (second.ends, second.hosts)
    assert after.not_valid_after_utc == second.ends
    assert f"{after.serial_number:x}" == second.serial != first.serial


def test_who_is_revoked_is_so_with_all_earlier_certificates(authority: Authority) -> None:
    signed(authority, "broker-1")
    signed(authority, "lost")
    stolen = authority.file_of("lost").read_bytes()
    authority.renew("lost", days=None, now=NOW)
    assert shake_hands(authority, "broker-1", "lost") == "lost"
    assert len(authority.revoke("lost", now=NOW)) == 2
    with pytest.raises(ssl.SSLError, match="revoked"):
        shake_hands(authority, "broker-1", "lost")
    authority.file_of("lost").write_bytes(stolen)
    with pytest.raises(ssl.SSLError, match="revoked"):
        shake_hands(authority, "broker-1", "lost")
    with pytest.raises(Refused, match="lost is revoked: sign a new one"):
        authority.renew("lost", days=None, now=NOW)
    signed(authority, "lost", force=True)
    assert shake_hands(authority, "broker-1", "lost") == "lost"
    assert [each.revoked for each in authority.latest()] == [None, None]


def test_the_list_is_written_again_if_somebody_lost_it(authority: Authority) -> None:
    signed(authority, "lost")
    authority.revoke("lost", now=NOW)
    since = authority.latest()[0].revoked
    authority.revoked.unlink()
    authority.revoke("lost", now=NOW + DAY)
    made = x509.load_pem_x509_crl(authority.revoked.read_bytes())
    (entry,) = made
    assert entry.revocation_date_utc == since.replace(microsecond=0) if since else False
    assert made.next_update_utc == authority.ends


def test_nothing_takes_anothers_place_unasked(authority: Authority) -> None:
    signed(authority, "broker-1")
    with pytest.raises(Refused, match="already signed"):
        signed(authority, "broker-1")
    authority.file_of("broker-1").unlink()  # it was moved to its host
    with pytest.raises(Refused, match="already signed"):
        signed(authority, "broker-1")
    authority.file_of("other").write_text("somebody's")
    with pytest.raises(Refused, match="exists: --force"):
        signed(authority, "other")
    signed(authority, "other", force=True)
    with pytest.raises(Refused, match="has an authority"):
        make_authority(authority.directory, "another", now=NOW)


def test_what_is_over_is_forgotten_but_for_the_last_of_a_name(authority: Authority) -> None:
    signed(authority, "broker-1", days=10)
    authority.renew("broker-1", days=None, now=NOW + 5 * DAY)
    signed(authority, "old", days=1)
    later = NOW + 100 * DAY
    authority.renew("broker-1", days=None, now=later)
    assert [each.name for each in authority.latest()] == ["broker-1", "old"]
    text = (authority.directory / "signed.json").read_text()
    assert text.count('"broker-1"') == 2  # the one of day 5 was the last, until this one
    assert text.count('"old"') == 1


def test_nothing_is_good_for_longer_than_its_authority(authority: Authority) -> None:
    last_year = authority.ends - 100 * DAY
    assert signed(authority, "usual", now=last_year).ends == authority.ends
    with pytest.raises(Refused, match="pass fewer --days"):
        signed(authority, "long", days=USUAL_DAYS, now=last_year)
    with pytest.raises(Refused, match="the authority itself expires on"):
        signed(authority, "late", now=authority.ends + DAY)


def test_what_a_kill_left_of_one_that_was_being_made(authority: Authority, tmp_path: Path) -> None:
    for left in (["signed.json"], ["signed.json", "ca.key"]):
        directory = tmp_path / "-".join(left)
        directory.mkdir()
        for each in left:
            (directory / each).write_bytes((authority.directory / each).read_bytes())
        signed(make_authority(directory, "again", now=NOW), "broker-1")


def test_what_is_left_of_one_that_has_signed_is_not_overwritten(authority: Authority) -> None:
    signed(authority, "broker-1")
    authority.ca.unlink()
    key = (authority.directory / "ca.key").read_bytes()
    with pytest.raises(Refused, match="without its certificate"):
        make_authority(authority.directory, "again", now=NOW)
    (authority.directory / "signed.json").unlink()
    with pytest.raises(Refused, match="without its certificate"):
        make_authority(authority.directory, "again", now=NOW)
    assert (authority.directory / "ca.key").read_bytes() == key


def test_files_that_do_not_fit(authority: Authority, tmp_path: Path) -> None:
    other = make_authority(tmp_path / "other", "another", now=NOW)
    key = authority.directory / "ca.key"
    own = key.read_bytes()
    for content, said in (
        ((other.directory / "ca.key").read_bytes(), "is not the key of"),
        (b"nonsense", "cannot be used"),
        (None, "cannot sign"),
    ):
        key.unlink()
        if content is not None:
            key.write_bytes(content)
        with pytest.raises(Refused, match=said):
            signed(authority, "broker-1")
    key.write_bytes(own)
    record = authority.directory / "signed.json"
    for text, said in (("{", "cannot be read"), ('{"version": 2}', "another release")):
        record.write_text(text)
        with pytest.raises(Refused, match=said):
            signed(authority, "broker-1")
    assert not authority.file_of("broker-1").exists()


@pytest.mark.parametrize(
    "host", ["", "a b", "a..b", "-a", "10.0.0.256", "ü.example", "a/b", "*", "*.example"]
)
def test_what_is_no_host(host: str, authority: Authority) -> None:
    with pytest.raises(BadName, match=r"is no|is not a valid wildcard"):
        signed(authority, "broker-1", hosts=(host,))


def test_so_many_hosts(authority: Authority) -> None:
    signed(authority, "fits", hosts=tuple(f"h{number}" for number in range(100)))
    with pytest.raises(BadName, match="at most 100"):
        signed(authority, "large", hosts=tuple(f"h{number}" for number in range(101)))


@given(st.text(max_size=80))
def test_a_name_leads_nowhere_else(name: str) -> None:
    try:
        check_name(name)
    except BadName:
        return
    assert Path("d", f"{name}.pem").parts == ("d", f"{name}.pem")
    assert not name.startswith((".", "-"))
    assert name.isascii()
    assert len(name) <= 64


@given(st.one_of(st.text(max_size=300), st.ip_addresses().map(str)))
def test_a_host_that_is_taken_can_be_signed(host: str) -> None:
    try:
        taken = check_host(host)
    except BadName:
        return
    assert taken.isascii()
    assert taken == check_host(taken)
