"""A broker and a registry whose ZooKeeper is behind locks, as processes."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.logins.certificates import Authority
from harness.logins.made_secrets import made_secret
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.penstock.secured_zookeeper import SecuredZooKeeper
from harness.processes.server_process import http_page

PASSWORD = made_secret("zookeeper")
CAN_LOG_IN = importlib.util.find_spec("puresasl") is not None


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def locked(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredZooKeeper]:
    """It wants a certificate, and a login where one can be made here."""
    directory = tmp_path_factory.mktemp("zookeeper")
    users = {"penstock": PASSWORD} if CAN_LOG_IN else {}
    with SecuredZooKeeper(directory, authority, users=users, wants_certificates=True) as running:
        yield running


def test_they_get_in_and_say_until_when(
    tmp_path: Path, authority: Authority, locked: SecuredZooKeeper
) -> None:
    mine = authority.sign("penstock").both
    security: dict[str, object] = {"tls": {"ca": str(authority.ca), "certificate": str(mine)}}
    if CAN_LOG_IN:
        (tmp_path / "password").write_text(PASSWORD + "\n")
        security |= {"user": "penstock", "password_file": str(tmp_path / "password")}
    settings = {"zookeeper_security": security}
    at: dict[str, Any] = {"zookeeper": f"{locked.tls_address}/cluster", "settings": settings}
    with (
        BrokerProcess(tmp_path / "broker", **at) as broker,
        RegistryProcess(tmp_path / "registry", brokers=broker.bootstrap, **at) as registry,
    ):
        assert registry.register("s", "string").status == 200
        for port in (broker.http_port, registry.port):
            page = http_page(port, "/metrics")[1]
            for file in (authority.ca, mine):
                assert f'penstock_certificate_expires_seconds{{file="{file}"}}' in page
        assert PASSWORD not in broker.log() + registry.log()
