"""What each program of `penstock up` is told, as the content of its configuration file. Pure.

Everything listens on this machine only. Each time that counts is shorter than in production, so
that a verdict is there soon: windows are ten seconds, and the ledger is written every two.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from penstock.up.places import CLUSTER, HOST, WINDOW_SECONDS, Addresses, Places, Ports

HEADER: Final = """\
# Written by `penstock up` at each start: changes are lost.
# To run this program by itself, stop `penstock up` and copy this file.
"""
_LEDGER_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 10.0  # nothing is far away
_DRAIN_SECONDS: Final = 3.0  # all must be stopped within ten
# Loads are small here, and over before Java's second compiler is worth its start.
_SPARK: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

Settings = Mapping[str, Any]


def settings(places: Places, ports: Ports) -> Mapping[str, Settings]:
    """By program."""
    addresses = Addresses.of(ports)
    shared = {"cluster": CLUSTER, "window": WINDOW_SECONDS}
    reached = {"brokers": [addresses.brokers], "registry": addresses.registry}
    return {
        "broker": shared
        | {
            "id": 1,
            "data_dir": literal(str(places.data("broker"))),
            "port": ports.broker,
            "http_port": ports.broker_http,
            "zookeeper": f"{HOST}:{ports.zookeeper}",
            "zookeeper_secret_file": literal(str(places.data("zookeeper") / "secret")),
            "registry": addresses.registry,
            "ledger_interval": _LEDGER_SECONDS,
        },
        "registry": {
            "cluster": CLUSTER,
            "brokers": [addresses.brokers],
            "port": ports.registry,
        },
        "agent": shared
        | reached
        | {
            "inputs_dir": literal(str(places.inputs)),
            "data_dir": literal(str(places.data("agent"))),
            "http_port": ports.agent_http,
            "ledger_interval": _LEDGER_SECONDS,
            "drain": _DRAIN_SECONDS,
        },
        "loader": shared
        | reached
        | {
            "root": literal(f"file://{places.warehouse}"),
            "topics": ["*"],
            "audit": addresses.audit,
            "spark": {"master": "local[2]", "conf": _SPARK},
        },
        "audit": shared
        | reached
        | {
            "data_dir": literal(str(places.data("audit"))),
            "port": ports.audit,
            "grace": _GRACE_SECONDS,
        },
    }


def literal(text: str) -> str:
    """As it must stand in a configuration file, where ${NAME} would be filled in."""
    return text.replace("${", "$${")


def document(content: Settings) -> str:
    """The file's text."""
    return HEADER + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
