"""The pages of an agent and a broker, as processes: seen by who is known, whatever asks them."""

import hashlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from ground.http.client import HttpAnswer, HttpClient, HttpError, HttpUrl
from ground.http.security import HttpSecurity, access_to
from ground.tls.client import Tls
from harness.logins.certificates import Authority
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import RunningServer, http_page
from harness.processes.waiting import wait_until
from penstock.certificates.authority import make_authority
from penstock.certificates.x509 import Purpose
from tests.penstock.running import penstock

NOBODY = "127.0.0.1:9"
TOKEN = "a-token-that-prometheus-has"


class Site:
    """An authority, what a server's pages are locked with, and how one gets in."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory / "authority")
        self.tokens, token = directory / "tokens", directory / "token"
        self.told = directory / "told.yaml"
        self.http = {
            "tls": {"certificate": str(authority.sign("server").both)},
            "tokens_file": str(self.tokens),
        }
        token.write_text(TOKEN)
        self.security = HttpSecurity(tls=Tls(ca=str(authority.ca)), token_file=str(token))
        self.told.write_text(
            yaml.safe_dump({"tls": {"ca": str(authority.ca)}, "token_file": str(token)})
        )

    def write_tokens(self) -> None:
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        self.tokens.write_text(f"prometheus:sha256:{digest}\n")

    def page(self, port: int, path: str) -> HttpAnswer | None:
        """None while nobody answers."""
        at = HttpUrl("https", "127.0.0.1", port)
        with HttpClient(at, access=access_to(self.security)) as client:
            try:
                return client.ask("GET", path, within=20)
            except HttpError:
                return None

    def serves(self, port: int) -> bool:
        answer = self.page(port, "/metrics")
        return answer is not None and answer.status == 200


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextmanager
def agent_of(directory: Path, **settings: object) -> Iterator[AgentProcess]:
    """It reaches nobody, and has a file to follow."""
    log = directory / "a.log"
    log.write_text("a line\n")
    agent = AgentProcess(
        directory / "agent",
        brokers=NOBODY,
        registry="http://127.0.0.1:9",
        inputs=[{"topic": "x", "paths": [str(log)]}],
        settings={"drain": 0, **settings},
    )
    agent.spawn()
    try:
        wait_until(lambda: bool(agent.said("agent ready")), what="it follows files")
        yield agent
    finally:
        agent.kill()


def test_an_agents_status_is_for_those_who_are_known(tmp_path: Path, site: Site) -> None:
    with agent_of(tmp_path, http=site.http) as agent:
        # There is no file of tokens yet: it follows its files, and says why nobody can ask.
        assert agent.said("warning", "cannot serve pages yet", "`http.tokens_file`", "no such file")
        site.write_tokens()
        wait_until(lambda: site.serves(agent.http_port), what="serving pages")
        config = str(agent.config)
        refused = penstock("agent", "--status", "--config", config)
        assert refused.returncode == 1
        assert "its certificate: unable to get local issuer certificate" in refused.stderr
        without = tmp_path / "without.yaml"
        without.write_text(f"tls: {{ca: {site.security.tls.ca}}}\n" if site.security.tls else "")
        refused = penstock(
            "agent", "--status", "--config", config, "--agent-security", str(without)
        )
        assert refused.returncode == 1
        assert "rejected these credentials: authentication required" in refused.stderr
        shown = penstock(
            "agent", "--status", "--config", config, "--agent-security", str(site.told)
        )
        assert (shown.returncode, shown.stderr) == (0, "")
        assert str(tmp_path / "a.log") in shown.stdout
        metrics = site.page(agent.http_port, "/metrics")
        assert metrics is not None
        assert b"penstock_agent_insecure 0.0\n" in metrics.body
        counted = b'penstock_agent_pages_refused_total{why="authentication required"} 1.0\n'
        assert counted in metrics.body
        assert b'penstock_certificate_expires_seconds{file="' in metrics.body
        assert TOKEN not in agent.log()


def test_a_brokers_metrics_are_for_those_who_are_known(
    tmp_path: Path, site: Site, chroot: str
) -> None:
    site.write_tokens()
    broker = BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings={"http": site.http})
    broker.spawn()
    try:
        wait_until(lambda: site.serves(broker.http_port), what="serving pages")

        def ready() -> bool:
            page = site.page(broker.http_port, "/readyz")
            return page is not None and page.body == b"ready\n"

        wait_until(ready, what="it is ready, and says so in full")
        metrics = site.page(broker.http_port, "/metrics")
        assert metrics is not None
        assert b"penstock_broker_insecure 0.0\n" in metrics.body
        assert "insecure" not in broker.log()
        asked = ["status", "--bootstrap", broker.bootstrap, "--broker-http"]
        asked.append(f"https://127.0.0.1:{broker.http_port}")
        known = penstock(*asked, "--broker-http-security", str(site.told))
        assert "broker's page" not in known.stdout
        assert "no broker's page at" in penstock(*asked).stdout
    finally:
        broker.stop()


def test_pages_that_everybody_sees_are_said_at_each_start(tmp_path: Path, chroot: str) -> None:
    everywhere = {"http_host": "0.0.0.0", "insecure": True}
    broker = BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=everywhere)
    with agent_of(tmp_path, **everywhere) as agent, broker:
        said = "insecure: other machines reach http_host=0.0.0.0, and there is no login"
        assert said in agent.log()
        assert "penstock_agent_insecure 1.0\n" in http_page(agent.http_port, "/metrics")[1]
        assert "without a login, or read the traffic: http_host 0.0.0.0" in broker.log()
        assert "penstock_broker_insecure 1.0\n" in broker.http("/metrics")[1]


# Programs that were told of certificates say when these end, from their start on


def certificate(directory: Path, days: int) -> Path:
    now = datetime.now(UTC)
    authority = make_authority(directory, "an authority", now=now)
    authority.sign("me", hosts=(), purpose=Purpose.CLIENT, days=days, now=now)
    return authority.file_of("me")


def expiry(file: Path, page: str) -> float:
    (line,) = [each for each in page.splitlines() if f'file="{file}"' in each]
    name, value = line.rsplit(" ", 1)
    assert name == f'penstock_certificate_expires_seconds{{file="{file}"}}'
    return float(value)


def about(days: int) -> float:
    return (datetime.now(UTC) + timedelta(days=days)).timestamp()


def test_an_agent_and_an_audit_say_when_their_certificates_end(tmp_path: Path) -> None:
    soon, later = certificate(tmp_path / "soon", 5), certificate(tmp_path / "later", 60)
    ca = tmp_path / "later" / "ca.pem"
    (read,) = ssl.create_default_context(cafile=str(ca)).get_ca_certs()
    ca_ends = ssl.cert_time_to_seconds(str(read["notAfter"]))
    security = {"tls": {"ca": str(ca), "certificate": str(soon)}}
    clusters = {
        "one": {"brokers": [NOBODY], "security": {"tls": {"certificate": str(later)}}},
        "two": {"brokers": [NOBODY], "security": security},
    }
    audit = AuditProcess(tmp_path / "audit", settings={"clusters": clusters})
    audit.spawn()
    try:
        with agent_of(tmp_path, security=security) as agent:
            for program, port in ((agent, agent.http_port), (audit, audit.port)):
                check_says_that_it_ends_soon(program, port, soon)
                assert expiry(ca, http_page(port, "/metrics")[1]) == ca_ends
                assert str(later) not in program.log()
        assert abs(expiry(later, http_page(audit.port, "/metrics")[1]) - about(60)) < 600
    finally:
        audit.stop()


def check_says_that_it_ends_soon(program: RunningServer, port: int, soon: Path) -> None:
    wait_until(lambda: http_page(port, "/metrics")[0] == 200, what="metrics are there")
    assert abs(expiry(soon, http_page(port, "/metrics")[1]) - about(5)) < 600
    said = f"certificate expires soon file={soon} days_left=4"
    wait_until(lambda: program.log().count(said) == 1, what="it is said once")
