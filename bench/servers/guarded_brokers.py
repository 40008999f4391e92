"""The brokers under test in pairs: one without authorization, and one with ACLs.

They have their defaults otherwise. Resources without ACLs are open to everyone, so that ACLs and
topics can be created without a login.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.servers.brokers import (
    APACHE_KAFKA,
    PENSTOCK,
    Broker,
    apache_kafka_server,
    penstock_cluster,
)

_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class GuardedBroker(msgspec.Struct, frozen=True):
    """Two started brokers: one without authorization, and one with ACLs."""

    name: str
    open: Broker
    guarded: Broker

    def last_words(self, lines: int) -> str:
        return f"{self.open.last_words(lines)}\n{self.guarded.last_words(lines)}"


@contextlib.contextmanager
def _penstock(directory: Path) -> Iterator[GuardedBroker]:
    rules = {"authorization": {"allow_if_no_acl": True}}
    with (
        penstock_cluster(directory / "open") as (_, open_broker),
        penstock_cluster(directory / "guarded", rules) as (_, guarded_broker),
    ):
        yield GuardedBroker(
            PENSTOCK, Broker(PENSTOCK, open_broker, {}), Broker(PENSTOCK, guarded_broker, {})
        )


@contextlib.contextmanager
def _apache_kafka(directory: Path) -> Iterator[GuardedBroker]:
    rules = {"authorizer.class.name": _AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with (
        apache_kafka_server(directory / "open") as open_broker,
        apache_kafka_server(directory / "guarded", settings=rules) as guarded_broker,
    ):
        yield GuardedBroker(
            APACHE_KAFKA,
            Broker(APACHE_KAFKA, open_broker, {}),
            Broker(APACHE_KAFKA, guarded_broker, {}),
        )


GuardedKind = Callable[[Path], contextlib.AbstractContextManager[GuardedBroker]]
GUARDED: Mapping[str, GuardedKind] = {PENSTOCK: _penstock, APACHE_KAFKA: _apache_kafka}
