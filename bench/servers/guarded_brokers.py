"""The brokers under test, twice each: one where everybody may do everything, one that goes by ACLs.

Both are otherwise left at their defaults. What no ACL stands on is allowed, so that the ACLs can be
added, and topics created, without any login.
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
    """Two started brokers."""

    name: str
    open: Broker
    guarded: Broker

    def last_words(self, lines: int) -> str:
        return f"{self.open.last_words(lines)}\n{self.guarded.last_words(lines)}"


@contextlib.contextmanager
def _penstock(directory: Path) -> Iterator[GuardedBroker]:
    rules = {"authorization": {"allow_if_no_acl": True}}
    with (
        penstock_cluster(directory / "open") as (_, everybody),
        penstock_cluster(directory / "guarded", rules) as (_, guarded),
    ):
        yield GuardedBroker(
            PENSTOCK, Broker(PENSTOCK, everybody, {}), Broker(PENSTOCK, guarded, {})
        )


@contextlib.contextmanager
def _apache_kafka(directory: Path) -> Iterator[GuardedBroker]:
    rules = {"authorizer.class.name": _AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with (
        apache_kafka_server(directory / "open") as everybody,
        apache_kafka_server(directory / "guarded", settings=rules) as guarded,
    ):
        yield GuardedBroker(
            APACHE_KAFKA, Broker(APACHE_KAFKA, everybody, {}), Broker(APACHE_KAFKA, guarded, {})
        )


GuardedKind = Callable[[Path], contextlib.AbstractContextManager[GuardedBroker]]
GUARDED: Mapping[str, GuardedKind] = {PENSTOCK: _penstock, APACHE_KAFKA: _apache_kafka}
