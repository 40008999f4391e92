"""A broker with locks that goes by ACLs: alice may do everything to topics, bob nothing."""

import uuid
from collections.abc import Iterator

import pytest

from client.acls import add_acls
from client.admin import create_topic
from client.brokers import Brokers
from client.security import Mechanism
from cluster.zookeeper import EmbeddedZooKeeper
from harness.secured_broker import SecuredBroker
from tests.system.ways_in.doors import TOPIC
from wire.acls import (
    ANYTHING,
    USER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


@pytest.fixture(scope="module")
def secured(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    everything = Acl(f"{USER}alice", ANYTHING, Operation.ALL, Permission.ALLOW)
    all_topics = ResourcePattern(ResourceType.TOPIC, ANYTHING, PatternType.LITERAL)
    with SecuredBroker(
        tmp_path_factory.mktemp("ways-in"),
        zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}",
        settings={"authorization": {"super_users": ["broker"]}},
    ) as secured:
        with Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512, "broker")) as brokers:
            create_topic(brokers, TOPIC, partitions=1)
            add_acls(brokers, [(all_topics, everything)])
        yield secured
