"""Programs that were told of certificates say when these end, from their start on."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.agent_process import AgentProcess
from harness.audit_process import AuditProcess
from harness.server_process import http_page
from harness.waiting import wait_until
from penstock.certificates.authority import make_authority
from penstock.certificates.signing import Purpose

NOBODY = "127.0.0.1:9"


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


def test_an_agent_and_an_audit(tmp_path: Path) -> None:
    soon, later = certificate(tmp_path / "soon", 5), certificate(tmp_path / "later", 60)
    ca = tmp_path / "later" / "ca.pem"
    security = {"tls": {"ca": str(ca), "certificate": str(soon)}}
    agent = AgentProcess(
        tmp_path / "agent",
        brokers=NOBODY,
        registry="http://127.0.0.1:9",
        inputs=[{"paths": [str(tmp_path / "*.log")], "topic": "x"}],
        settings={"security": security},
    )
    clusters = {
        "one": {"brokers": [NOBODY], "security": {"tls": {"certificate": str(later)}}},
        "two": {"brokers": [NOBODY], "security": security},
    }
    audit = AuditProcess(tmp_path / "audit", settings={"clusters": clusters})
    agent.spawn()
    audit.spawn()
    try:
        for program, port in ((agent, agent.http_port), (audit, audit.port)):
            wait_until(
                lambda: http_page(port, "/metrics")[0] == 200,  # noqa: B023  called at once
                within=60,
                what="metrics are there",
            )
            page = http_page(port, "/metrics")[1]
            assert abs(expiry(soon, page) - about(5)) < 600
            assert expiry(ca, page) == ssl.cert_time_to_seconds(not_after(ca))
            said = f"certificate ends soon file={soon} days_left=4"
            wait_until(
                lambda: program.log().count(said) == 1,  # noqa: B023  called at once
                within=60,
                what="it is said once",
            )
            assert str(later) not in program.log()
        assert abs(expiry(later, page) - about(60)) < 600
    finally:
        agent.stop()
        audit.stop()


def not_after(ca: Path) -> str:
    context = ssl.create_default_context(cafile=str(ca))
    (read,) = context.get_ca_certs()
    return str(read["notAfter"])
