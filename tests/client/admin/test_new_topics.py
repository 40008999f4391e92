"""What brokers say of topics that they would make, under the names that topics have for it."""

from collections.abc import Mapping

import pytest

from client.admin.new_topics import from_broker_configs, new_topics
from client.admin.topics import broker_configs, create_topic, topic_configs
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"log.retention.hours": "168"}, "604800000"),
        ({"log.retention.hours": "168", "log.retention.minutes": "2"}, "120000"),
        ({"log.retention.hours": "168", "log.retention.ms": "7", "log.retention.minutes": ""}, "7"),
        ({"log.retention.hours": "168", "log.retention.minutes": "-1"}, "-1"),
        ({"log.retention.ms": "soon"}, None),
    ],
)
def test_the_finest_unit_of_retention_counts(said: Mapping[str, str], kept: str | None) -> None:
    assert from_broker_configs(said).configs.get("retention.ms") == kept


def test_whether_they_are_made() -> None:
    assert from_broker_configs({"auto.create.topics.enable": "true"}).at_first_use
    assert not from_broker_configs({"auto.create.topics.enable": "false"}).at_first_use
    assert not from_broker_configs({}).at_first_use


@pytest.mark.parametrize("cluster", ["running_broker", "running_kafka"])
def test_a_topic_that_is_made_is_as_it_was_said(
    request: pytest.FixtureRequest, cluster: str, new_topic: str
) -> None:
    bootstrap = request.getfixturevalue(cluster).bootstrap
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        said = new_topics(brokers)
        assert said is not None
        made = create_topic(brokers, new_topic)
        configs = {each.name: each.value for each in topic_configs(brokers, new_topic)}
        (broker,) = brokers.known.brokers
        assert {each.name: each.value for each in broker_configs(brokers, broker)}["broker.id"] == (
            str(broker)
        )
    assert said.at_first_use
    assert said.partitions == str(len(made.partitions))
    assert said.configs == {name: configs[name] for name in said.configs}
    assert {"compression.type", "retention.ms", "max.message.bytes"} <= said.configs.keys()
