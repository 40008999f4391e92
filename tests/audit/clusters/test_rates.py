"""How fast topics grow: by two looks at where their logs end."""

import pytest

from audit.clusters.rates import RatesPoller, RatesSeen, rates_between
from audit.configuration.config import Cluster
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("before", "ends", "expected"),
    [
        ({ONE: 5, TWO: 0}, {ONE: 15, TWO: 10}, {"t": 4.0}),
        ({ONE: 5, TWO: 0}, {ONE: 5, TWO: 0}, {"t": 0.0}),
        ({ONE: 5, TWO: 0}, {ONE: 15}, {}),  # a leader does not answer
        ({ONE: 5}, {ONE: 15, TWO: 10}, {}),  # nor did it before
        ({ONE: 5, TWO: 8}, {ONE: 15, TWO: 2}, {}),  # the topic was made anew
    ],
)
def test_of_topics_of_whose_partitions_all_are_known(
    before: dict[TopicPartition, int], ends: dict[TopicPartition, int], expected: dict[str, float]
) -> None:
    assert rates_between(before, ends, [ONE, TWO], 5_000) == expected


def test_a_topic_that_is_written_to(running_broker: BrokerProcess, new_topic: str) -> None:
    seen: list[RatesSeen] = []
    cluster = Cluster(brokers=tuple(running_broker.bootstrap.split(",")))
    with Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic)
        look = RatesPoller(
            "c", cluster, receive=lambda _, rates: seen.append(rates), every_seconds=0.1
        )
        look.start()
        try:
            producer = Producer(brokers, new_topic)
            wait_until(lambda: len(seen) > 1, within=60, what="it looks")
            for _ in range(30):
                producer.send(b"message")
            producer.flush()

            def appended() -> bool:
                return sum(s.by_topic.get(new_topic, 0) * s.over for s in list(seen)) > 29_999

            wait_until(appended, within=60, what="30 messages in all")
        finally:
            look.ask_to_stop()
            look.join()
    assert all(rates.measured > 0 for rates in seen if rates.by_topic)
    assert not any(topic.startswith("_") for rates in seen for topic in rates.by_topic)
