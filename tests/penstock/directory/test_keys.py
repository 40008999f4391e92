"""Keys of a pipeline behind locks: made once, kept, made anew where somebody took them away."""

import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from client.connection.security import Security
from ground.http.security import HttpSecurity
from ground.logins.password_file import PasswordFile, SlowHash
from ground.logins.token_file import TokenFile
from ground.tls.client import Tls, client_context
from ground.tls.server import ListenerTls, ServerTls
from penstock.certificates.authority import Authority
from penstock.certificates.pem_files import certificates_in
from penstock.config.configuration import load
from penstock.directory.errors import DirectoryUnusable
from penstock.directory.keys import RENEW_BEFORE, make_keys, renew_certificates
from penstock.directory.locks import ADMIN, SERVERS, TOKENS, USERS, Locks
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import Places, Ports

PUBLIC = {"ca.pem", "revoked.pem"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with keys, and a copy of it: to hash all passwords takes half a second."""
    directory = tmp_path_factory.mktemp("keys") / "pipeline"
    directory.mkdir()
    make_keys(Locks.of(Places(directory)))
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    return directory, copy


@pytest.fixture
def directory(made: tuple[Path, Path]) -> Path:
    """As it was made, at the same place: files there name others."""
    directory, copy = made
    shutil.rmtree(directory)
    shutil.copytree(copy, directory)
    return directory


@pytest.fixture
def locks(directory: Path) -> Locks:
    return Locks.of(Places(directory))


def contents(locks: Locks) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in locks.folder.rglob("*") if path.is_file()}


def password(locks: Locks, user: str) -> str:
    return locks.password(user).read_text().strip()


def test_they_are_its_users_alone(locks: Locks) -> None:
    modes = {path: path.stat().st_mode & 0o777 for path in locks.folder.rglob("*")}
    assert locks.folder.stat().st_mode & 0o777 == modes.pop(locks.authority) == 0o700
    assert {path.name for path, mode in modes.items() if mode != 0o600} == PUBLIC


def test_what_is_there_is_kept(locks: Locks) -> None:
    before = contents(locks)
    make_keys(locks)
    assert contents(locks) == before


def test_each_is_known_by_what_is_its_own(locks: Locks) -> None:
    secrets = [password(locks, user) for user in USERS]
    assert len(set(secrets)) == len(USERS)
    assert min(map(len, secrets)) >= 32
    registry, page = PasswordFile(locks.registry_users), PasswordFile(locks.audit_users)
    assert all(registry.check(user, password(locks, user)) for user in USERS)
    assert not registry.check("agent", password(locks, "loader"))
    assert page.check(ADMIN, password(locks, ADMIN))
    assert not page.has("agent")
    tokens = TokenFile(locks.audit_tokens)
    assert [tokens.name_of(locks.token(each).read_text().strip()) for each in TOKENS] == [*TOKENS]


def test_commands_get_in_as_the_admin_does(directory: Path, locks: Locks) -> None:
    pipeline_access = PipelineAccess.of(Places(directory), Ports(), secure=True)
    assert load(Security, locks.for_commands("brokers")) == pipeline_access.security
    assert load(HttpSecurity, locks.for_commands("registry")) == pipeline_access.registry_security
    assert load(HttpSecurity, locks.for_commands("audit")) == pipeline_access.audit_security


def test_servers_are_believed(locks: Locks) -> None:
    client = client_context(Tls(ca=str(locks.ca)))
    for server in SERVERS:
        shown = ServerTls(ListenerTls(certificate=str(locks.certificate(server)))).context
        assert shakes_hands(client, shown, "127.0.0.1")
        assert shakes_hands(client, shown, "localhost") is (server != "audit")


def shakes_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> bool:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for each in (asking, answering, asking, answering):
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


def test_certificates_are_renewed_before_they_end(locks: Locks) -> None:
    def ends() -> dict[str, datetime]:
        return {each: certificates_in(locks.certificate(each))[0].ends for each in SERVERS}

    first = ends()
    soonest = min(first.values())
    renew_certificates(locks, soonest - RENEW_BEFORE)
    assert ends() == first
    renew_certificates(locks, soonest - RENEW_BEFORE + timedelta(minutes=1))
    assert all(later > first[each] + timedelta(days=300) for each, later in ends().items())


def test_in_its_last_year_an_authority_signs_up_to_its_end(locks: Locks) -> None:
    authority = Authority(locks.authority)
    renew_certificates(locks, authority.ends - timedelta(days=40))
    (shown,) = certificates_in(locks.certificate("broker"))
    assert timedelta() <= authority.ends - shown.ends < timedelta(days=2)
    before = contents(locks)
    renew_certificates(locks, authority.ends - timedelta(days=3))
    assert contents(locks) == before
    with pytest.raises(DirectoryUnusable, match=r"expire on .* to create a new authority"):
        renew_certificates(locks, authority.ends - timedelta(days=1))


@pytest.mark.not_quick("hashes very many passwords")
def test_who_removes_a_password_has_another(locks: Locks) -> None:
    old = {user: password(locks, user) for user in USERS}
    locks.password(ADMIN).unlink()
    locks.token("loader").write_text("said by somebody\n")
    make_keys(locks)
    new = password(locks, ADMIN)
    assert new != old[ADMIN]
    for file in (locks.registry_users, locks.audit_users):
        users = PasswordFile(file)
        assert users.check(ADMIN, new)
        assert not users.check(ADMIN, old[ADMIN])
    assert PasswordFile(locks.registry_users).check("agent", old["agent"])
    assert TokenFile(locks.audit_tokens).name_of("said by somebody") == "loader"
    assert not locks.audit_tokens.read_text().count("loader:") - 1


def test_other_users_of_the_page_stay(locks: Locks) -> None:
    line = f"ada:{SlowHash.of('ada s password')}"
    locks.audit_users.write_text(f"# people\n{line}\n")
    make_keys(locks)
    said = locks.audit_users.read_text().splitlines()
    assert said[:2] == ["# people", line]
    assert said[2].startswith(f"{ADMIN}:scrypt:")


@pytest.mark.not_quick("hashes very many passwords")
@pytest.mark.parametrize("server", SERVERS)
def test_a_certificate_of_another_authority_is_none(
    tmp_path: Path, locks: Locks, server: str
) -> None:
    other = Locks.of(Places(tmp_path / "other"))
    other.folder.mkdir(parents=True)
    renew_certificates(other, datetime.now(UTC))
    locks.certificate(server).write_bytes(other.certificate(server).read_bytes())
    make_keys(locks)
    (shown,) = certificates_in(locks.certificate(server))
    assert shown.serial in {each.serial for each in Authority(locks.authority).latest()}


@pytest.mark.not_quick("hashes very many passwords")
@pytest.mark.parametrize("gone", ["signed.json", "ca.key", "ca.pem", "broker.pem", "."])
def test_what_a_kill_or_a_person_took_away_is_made_anew_or_said(locks: Locks, gone: str) -> None:
    path = locks.authority / gone
    if gone == ".":
        path.rename(locks.folder / "elsewhere")
    else:
        path.unlink()
    if gone in {"broker.pem", "."}:
        make_keys(locks)
        assert certificates_in(locks.certificate("broker"))
        return
    locks.certificate("audit").unlink(missing_ok=True)
    with pytest.raises(DirectoryUnusable, match="to create a new"):
        make_keys(locks)


def test_a_file_that_says_nothing_is_said(locks: Locks) -> None:
    locks.password("agent").write_text("\n")
    with pytest.raises(DirectoryUnusable, match=r"agent\.password is empty: remove it to create"):
        make_keys(locks)
