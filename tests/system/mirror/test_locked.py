"""A mirror between clusters with locks, of a broker each: TLS, a login by SCRAM, and ACLs. With the
rights that its page lists it copies, and what it lacks it says. `alice` is the mirror, `broker` may
do everything."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from client.admin import topics as admin
from client.admin.acls import Rule, add_acls, all_acls, remove_acls
from client.connection.brokers import Brokers
from client.connection.security import Mechanism
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import committed_offsets
from client.producing.delivery import TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.logins.made_secrets import is_told
from harness.penstock.mirror import side
from harness.penstock.secured_broker import SecuredBroker
from harness.processes.waiting import wait_until
from tests.mirror.logs import PATIENCE, batches, values, wait_copied, write
from tests.mirror.workers import Worker
from wire.acls import (
    THE_CLUSTER,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from wire.mirrored import MIRROR_ID

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

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

    def mirror(self, there: str, **settings: Any) -> Worker:
        self._mirrors += 1
        return Worker(
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


@pytest.fixture(scope="module")
def clusters(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LockedClusters]:
    directory = tmp_path_factory.mktemp("locked")
    settings = {"authorization": {"super_users": ["broker"]}, "ledger": False}
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(
                SecuredBroker(
                    directory / name,
                    zookeeper=f"{zookeeper.address}/locked-{name}",
                    settings={"cluster": name, **settings},
                )
            )
            for name in ("dc1", "offline")
        )
        yield LockedClusters(directory, source, target)


@pytest.fixture
def there(clusters: LockedClusters) -> Iterator[Brokers]:
    with clusters.admin(clusters.source) as brokers:
        yield brokers


@pytest.fixture
def here(clusters: LockedClusters) -> Iterator[Brokers]:
    with clusters.admin(clusters.target) as brokers:
        yield brokers


def test_the_rights_of_the_page_are_enough(
    clusters: LockedClusters, there: Brokers, here: Brokers, new_topic: str
) -> None:
    copy, group = f"dc1.{new_topic}", f"group-{new_topic}"
    admin.create_topic(there, new_topic, partitions=1, configs={"retention.ms": "5000000"})
    admin.create_topic(there, f"{new_topic[::-1]}", partitions=1)
    write(there, new_topic, values(0, 300))
    commit_offsets(there, group, {TopicPartition(new_topic, 0): Consumed(25)})
    clusters.allow(new_topic)
    with clusters.mirror(new_topic, groups={"interval": 0.5}) as mirror:
        wait_copied(there, here, new_topic)
        assert batches(here, copy) == batches(there, new_topic)
        admin.add_partitions(there, new_topic, 2)
        admin.alter_topic(there, new_topic, {"retention.ms": "6000000"})
        write(there, new_topic, values(0, 50), 1)
        wait_copied(there, here, new_topic, 2)
        mirror.done("pause", copy)
        mirror.done("resume", copy)

        def is_followed() -> bool:
            configs = {each.name: each.value for each in admin.topic_configs(here, copy)}
            offset = committed_offsets(here, [group])[group].get(TopicPartition(copy, 0))
            return (
                configs["retention.ms"] == "6000000" and offset is not None and offset.offset == 25
            )

        wait_until(is_followed, within=PATIENCE, what="configs and groups are followed")
        wait_until(lambda: remarks(mirror) == "", within=PATIENCE, what="nothing is wrong")
        said = mirror.process.output.read_text() + mirror.told("status").stdout
        assert not is_told(said)


def remarks(mirror: Worker) -> str:
    """What is wrong, as it says; empty if nothing is."""
    found = mirror.standing()
    if found is None:
        return "it does not answer"
    return "\n".join([found["not_ready"], *found["remarks"]]).strip()


# What is taken away, where, and what the mirror says then.
MISSING: dict[str, tuple[str, Callable[[str], tuple[Operation, ResourcePattern]], str]] = {
    "read at the source": (
        "source",
        lambda topic: (Operation.READ, of_topics(topic, PatternType.PREFIXED)),
        "the source says: not allowed: User:alice needs READ on topic {topic}",
    ),
    "write to the copies": (
        "target",
        lambda topic: (Operation.WRITE, of_topics(f"dc1.{topic}", PatternType.PREFIXED)),
        "the target says: not allowed: User:alice needs WRITE on topic dc1.{topic}",
    ),
    "write as a mirror": (
        "target",
        lambda _topic: (
            Operation.WRITE,
            ResourcePattern(ResourceType.TRANSACTIONAL_ID, MIRROR_ID),
        ),
        f"not allowed: User:alice needs WRITE on transactional id {MIRROR_ID}",
    ),
    "the configs of topics": (
        "source",
        lambda topic: (Operation.DESCRIBE_CONFIGS, of_topics(topic, PatternType.PREFIXED)),
        "User:alice needs DESCRIBE_CONFIGS on topic {topic}",
    ),
    "read at the target": (
        "target",
        lambda topic: (Operation.READ, of_topics(f"dc1.{topic}", PatternType.PREFIXED)),
        "the target says: not allowed: User:alice needs READ on topic dc1.{topic}",
    ),
}
AT_A_BEGINNING = {"read at the target"}  # for the last batch there, which is compared


def test_a_right_that_is_taken_away_is_named_and_it_goes_on_when_it_is_back(
    clusters: LockedClusters, there: Brokers, here: Brokers, new_topic: str
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    clusters.allow(new_topic)
    with clusters.mirror(new_topic, groups={"sync": False}) as mirror:
        write(there, new_topic, values(0, 100))
        wait_copied(there, here, new_topic)
        for number, (right, (at, rule_of, told)) in enumerate(MISSING.items(), 1):
            brokers = there if at == "source" else here
            rule = allowed(*rule_of(new_topic))
            remove_acls(brokers, [rule])
            if right in AT_A_BEGINNING:
                mirror.terminate()
                mirror.start()
            write(there, new_topic, values(number * 100, 100))
            wanted = told.format(topic=new_topic)
            wait_until(lambda: wanted in remarks(mirror), within=PATIENCE, what=wanted)  # noqa: B023
            add_acls(brokers, [rule])
            wait_copied(there, here, new_topic)
            wait_until(lambda: remarks(mirror) == "", within=PATIENCE, what=f"{right} is back")
        assert batches(here, f"dc1.{new_topic}") == batches(there, new_topic)


def test_who_may_read_a_topic_may_read_its_copy(
    clusters: LockedClusters, there: Brokers, here: Brokers, new_topic: str
) -> None:
    everything = ResourcePattern(ResourceType.TOPIC, new_topic, PatternType.PREFIXED)
    given = [
        allowed(Operation.READ, of_topics(new_topic), "User:bob"),
        allowed(Operation.WRITE, of_topics(new_topic), "User:bob"),
        allowed(Operation.ALL, everything, "User:ann"),
    ]
    of_others = allowed(Operation.WRITE, of_topics(f"dc1.{new_topic}"), "User:eve")
    admin.create_topic(there, new_topic, partitions=1)
    clusters.allow(new_topic)
    add_acls(there, given)
    add_acls(here, [of_others])
    copy = of_topics(f"dc1.{new_topic}")
    reads = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    wanted = {allowed(Operation.READ, copy, "User:bob")[1], of_others[1]}
    wanted |= {allowed(each, copy, "User:ann")[1] for each in reads}
    # What the mirror itself may is on a prefix, and read there too.
    wanted |= {allowed(each, copy)[1] for each in reads}

    def found() -> set[Acl]:
        return set(all_acls(here, AclFilter(ResourceType.TOPIC, copy.name)).get(copy, ()))

    with clusters.mirror(new_topic, acls=True) as mirror:
        wait_until(lambda: found() == wanted, within=PATIENCE, what=f"{wanted} are there")
        remove_acls(there, given)
        write(there, new_topic, values(0, 10))
        wait_copied(there, here, new_topic)
        wait_until(lambda: remarks(mirror) == "", within=PATIENCE, what="nothing is wrong")
    assert found() == wanted
