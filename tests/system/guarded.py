"""Brokers with ACLs and client certificates."""

from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.logins.certificates import Authority
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports

WITHIN = 30.0


class Guarded:
    """Two brokers that require certificates; `admin` may do everything."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.authority = Authority(directory / "authority")
        server = self.authority.sign("broker")
        self.ports = free_ports(2)
        self.brokers = [
            BrokerProcess(
                directory / f"{number}",
                zookeeper=zookeeper,
                broker_id=number,
                settings={
                    "authorization": {"super_users": ["admin"]},
                    "listeners": [
                        {
                            "name": "KNOWN",
                            "port": port,
                            "tls": {
                                "certificate": str(server.certificate),
                                "key": str(server.key),
                                "client_ca": str(self.authority.ca),
                            },
                        }
                    ],
                },
            )
            for number, port in enumerate(self.ports, 1)
        ]

    def client(self, who: str, broker: int = 0, **more: Any) -> dict[str, Any]:
        me = self.authority.sign(who)
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[broker]}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority.ca),
            "ssl.certificate.location": str(me.certificate),
            "ssl.key.location": str(me.key),
            **more,
        }


def allow(
    admin: AdminClient,
    who: str,
    operation: AclOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{who}", "*",
        operation, AclPermissionType.ALLOW,
    )  # fmt: skip
    (made,) = admin.create_acls([binding], request_timeout=WITHIN).values()
    made.result(WITHIN)
    return binding
