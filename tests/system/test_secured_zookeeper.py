"""A broker and a registry whose ZooKeeper is behind locks, as processes."""

import importlib.util
from pathlib import Path

import pytest

from harness.broker_process import BrokerProcess
from harness.certificates import Authority
from harness.made_secrets import made_secret
from harness.registry_process import RegistryProcess
from harness.secured_zookeeper import SecuredZooKeeper
from harness.server_process import http_page

PASSWORD = made_secret("zookeeper")
CAN_LOG_IN = importlib.util.find_spec("puresasl") is not None


@pytest.mark.parametrize("logs_in", [False, CAN_LOG_IN], ids=["certificate", "login"])
def test_they_get_in_and_say_until_when(tmp_path: Path, logs_in: bool) -> None:
    authority = Authority(tmp_path / "authority")
    mine = authority.sign("penstock").both
    tls = {"ca": str(authority.ca), "certificate": str(mine)}
    security: dict[str, object] = {"tls": tls}
    if logs_in:
        (tmp_path / "password").write_text(PASSWORD + "\n")
        security |= {"user": "penstock", "password_file": str(tmp_path / "password")}
    settings = {"zookeeper_security": security}
    users = {"penstock": PASSWORD} if logs_in else {}
    with SecuredZooKeeper(
        tmp_path / "zookeeper", authority, users=users, wants_certificates=True
    ) as zookeeper:
        address = f"{zookeeper.tls_address}/cluster"
        with (
            BrokerProcess(tmp_path / "broker", zookeeper=address, settings=settings) as broker,
            RegistryProcess(
                tmp_path / "registry",
                brokers=broker.bootstrap,
                zookeeper=address,
                settings=settings,
            ) as registry,
        ):
            schema = {"schema": '{"type": "string"}'}
            assert registry.ask("POST", "/subjects/s/versions", schema).status == 200
            for port in (broker.http_port, registry.port):
                page = http_page(port, "/metrics")[1]
                for file in (authority.ca, mine):
                    assert f'penstock_certificate_expires_seconds{{file="{file}"}}' in page
            logs = broker.log() + registry.log()
            assert PASSWORD not in logs


def test_a_broker_that_is_not_believed_says_so_and_ends(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    settings = {"zookeeper_security": {"tls": {"ca": str(other.ca)}}}
    with SecuredZooKeeper(tmp_path / "zookeeper", authority) as zookeeper:
        broker = BrokerProcess(
            tmp_path / "broker", zookeeper=zookeeper.tls_address, settings=settings
        )
        broker.spawn()
        assert broker.process.wait(within=60) == 1
    last = broker.log().splitlines()[-1]
    assert last.startswith(f"penstock broker: ZooKeeper at {zookeeper.tls_address}: ")
    assert "its certificate is not believed" in last
