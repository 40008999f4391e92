"""The pages of an agent and a broker, as processes: seen by who is known, whatever asks them."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from ground.http_client import HttpAnswer, HttpClient, HttpError, HttpUrl
from ground.http_security import HttpSecurity, access_to
from ground.tls import Tls
from harness.agent_process import AgentProcess
from harness.broker_process import BrokerProcess
from harness.certificates import Authority
from harness.server_process import http_page
from harness.waiting import wait_until
from tests.penstock.running import penstock

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
        brokers="127.0.0.1:9",
        registry="http://127.0.0.1:9",
        inputs=[{"topic": "x", "paths": [str(log)]}],
        settings={"drain": 0, **settings},
    )
    agent.spawn()
    try:
        wait_until(lambda: bool(agent.said("agent ready")), within=60, what="it follows files")
        yield agent
    finally:
        agent.kill()


def test_an_agents_status_is_for_those_who_are_known(tmp_path: Path, site: Site) -> None:
    with agent_of(tmp_path, http=site.http) as agent:
        # There is no file of tokens yet: it follows its files, and says why nobody can ask.
        assert agent.said("warning", "no pages", "`http.tokens_file`", "no such file")
        site.write_tokens()
        wait_until(lambda: site.serves(agent.http_port), within=60, what="pages are served")
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
        assert "lets nobody in like that: it is not known who asks" in refused.stderr
        shown = penstock(
            "agent", "--status", "--config", config, "--agent-security", str(site.told)
        )
        assert (shown.returncode, shown.stderr) == (0, "")
        assert str(tmp_path / "a.log") in shown.stdout
        metrics = site.page(agent.http_port, "/metrics")
        assert metrics is not None
        assert b"penstock_agent_insecure 0.0\n" in metrics.body
        counted = b'penstock_agent_pages_refused_total{why="it is not known who asks"} 1.0\n'
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
        wait_until(lambda: site.serves(broker.http_port), within=60, what="pages are served")

        def ready() -> bool:
            page = site.page(broker.http_port, "/readyz")
            return page is not None and page.body == b"ready\n"

        wait_until(ready, within=60, what="it is ready, and says so in full")
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
        said = "insecure: other machines come in without a login, or read along: http_host 0.0.0.0"
        assert said in broker.log()
        assert "penstock_broker_insecure 1.0\n" in broker.http("/metrics")[1]
