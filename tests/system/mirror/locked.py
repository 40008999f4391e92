"""Two clusters with locks, of a broker each: TLS, a login by SCRAM, and ACLs. `alice` is the
mirror, `broker` may do everything."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from client.acls import Rule, add_acls
from client.brokers import Brokers
from client.security import Mechanism
from harness.mirror_process import MirrorProcess, side
from harness.secured_broker import SecuredBroker
from wire.acls import (
    THE_CLUSTER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from wire.mirrored import MIRROR_ID

SCRAM: Final = Mechanism.SCRAM_SHA_512
MIRROR: Final = "User:alice"
_PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "mirror.md"
_ROW: Final = re.compile(r"^\| the (source|target) \| ([^|]+) \| ([A-Z_, ]+) \|$", re.MULTILINE)


def allowed(operation: Operation, pattern: ResourcePattern, who: str = MIRROR) -> Rule:
    return pattern, Acl(who, "*", operation, Permission.ALLOW)


def of_topics(name: str, sort: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, sort)


def rights(there: str, prefix: str) -> dict[str, list[Rule]]:
    """What docs/mirror.md lists, for topics of the source that begin so; by `source`, `target`."""
    on = {
        "topics": of_topics(there, PatternType.PREFIXED),
        "the copies": of_topics(prefix + there, PatternType.PREFIXED),
        "groups": ResourcePattern(ResourceType.GROUP, "*"),
        "the cluster": ResourcePattern(ResourceType.CLUSTER, THE_CLUSTER),
        f"the transactional id `{MIRROR_ID}`": ResourcePattern(
            ResourceType.TRANSACTIONAL_ID, MIRROR_ID
        ),
    }
    found: dict[str, list[Rule]] = {"source": [], "target": []}
    for at, what, operations in _ROW.findall(_PAGE.read_text()):
        found[at] += [allowed(Operation[each], on[what]) for each in operations.split(", ")]
    return found


class LockedClusters:
    """Both run; nobody but `broker` has a right."""

    def __init__(self, directory: Path, source: SecuredBroker, target: SecuredBroker) -> None:
        self.source, self.target = source, target
        self._directory = directory
        self._mirrors = 0

    def admin(self, cluster: SecuredBroker) -> Brokers:
        return Brokers(cluster.bootstrap(SCRAM, "broker"), patience_seconds=60)

    def allow(self, there: str) -> None:
        """The mirror may copy topics that begin so: what the page lists, and no more."""
        for at, rules in rights(there, "dc1.").items():
            with self.admin(getattr(self, at)) as brokers:
                add_acls(brokers, rules)

    def mirror(self, there: str, **settings: Any) -> MirrorProcess:
        self._mirrors += 1
        return MirrorProcess(
            self._directory / f"mirror-{self._mirrors}",
            source=_side("dc1", self.source),
            target=_side("offline", self.target),
            settings={"topics": [f"{there}*"], "interval": 0.5, **settings},
        )


def _side(name: str, cluster: SecuredBroker) -> dict[str, object]:
    security = msgspec.to_builtins(cluster.security(SCRAM, "alice"), enc_hook=str)
    return side(name, [f"127.0.0.1:{cluster.locked}"], security=_said(security))


def _said(document: Any) -> Any:
    """What stands in a file: nothing of what was not said."""
    if isinstance(document, dict):
        said = {key: _said(each) for key, each in document.items()}
        return {key: each for key, each in said.items() if each is not None and each != ""}
    return document


@contextmanager
def locked_clusters(directory: Path, zookeeper: str) -> Iterator[LockedClusters]:
    """With maps below that path."""
    settings = {"authorization": {"super_users": ["broker"]}, "ledger": False}
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(
                SecuredBroker(
                    directory / name,
                    zookeeper=f"{zookeeper}-{name}",
                    settings={"cluster": name, **settings},
                )
            )
            for name in ("dc1", "offline")
        )
        yield LockedClusters(directory, source, target)
