"""What brokers say of topics: believed as far as it can be, and it never ends anything."""

import logging
import threading
from pathlib import Path

import pytest

from agent.shipping.questions import MOST_AT_ONCE, Questions
from agent.shipping.topics import Placement, chosen, is_recreated
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import ClientError, NotKafka
from tests.agent.shipping.agent_side import agent_side, wait_for
from tests.agent.shipping.refusing_broker import RefusingBroker

TOPIC = "t"


@pytest.mark.parametrize(
    ("said", "believed"), [("5000", 5_000), ("many", 1_000_000), ("", 1_000_000)]
)
def test_how_large_a_batch_may_be(tmp_path: Path, said: str, believed: int) -> None:
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        assert side.shipper.most_batch_bytes(TOPIC) == 1_000_000
        broker.configs["max.message.bytes"] = said
        side.target(TOPIC)
        wait_for(lambda: side.shipper.most_batch_bytes(TOPIC) == believed)


def test_a_topic_that_takes_nothing_stands_still(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        broker.configs["max.message.bytes"] = "50"
        assert side.shipper.target(TOPIC) is None
        why = wait_for(lambda: side.shipper.stalled().get(TOPIC), side.shipper)
        assert "max.message.bytes=50 nothing can be sent" in why
        broker.configs.clear()
        side.target(TOPIC)
        wait_for(lambda: side.shipper.stalled() == {})
        wait_for(lambda: "topic moves again topic=t" in caplog.text)
    assert caplog.text.count("topic does not move topic=t") == 1


def test_the_choice_is_always_the_same_and_spreads() -> None:
    places = [chosen(f"agent {number}", TOPIC, "id", 8) for number in range(400)]
    assert places == [chosen(f"agent {number}", TOPIC, "id", 8) for number in range(400)]
    counts = [sum(place.partition == each for place in places) for each in range(8)]
    assert min(counts) > 25
    assert sum(counts) == 400


def test_a_topic_is_another_one() -> None:
    known = Placement(TOPIC, "one", 3, 8)
    assert not is_recreated(known, "one", 16)
    assert is_recreated(known, "two", 16)
    assert not is_recreated(known, "", 8)  # a broker that has no ids
    assert is_recreated(known, "", 4)
    assert not is_recreated(known, "one", 4)  # a broker that is behind


def test_questions_fail_and_others_go_on() -> None:
    with RefusingBroker() as broker:
        answered = threading.Event()
        questions = Questions(Bootstrap.of(broker.bootstrap), "me", answered.set)
        got: list[object] = []

        def nonsense(brokers: Brokers, goes_on: object) -> int:
            raise ZeroDivisionError("what a broker said")

        def sense(brokers: Brokers, goes_on: object) -> int:
            return len(brokers.refresh([TOPIC]).topics)

        for _ in range(MOST_AT_ONCE + 2):
            questions.ask(nonsense, got.append)
        ended = threading.Event()

        def endless(brokers: Brokers, goes_on: object) -> None:
            ended.wait(60)

        for _ in range(MOST_AT_ONCE + 1):
            questions.ask(endless, lambda answer: None, long=True)
        questions.ask(sense, got.append)

        def take() -> bool:
            for call in questions.take():
                call()
            return len(got) == MOST_AT_ONCE + 3

        wait_for(take)
        assert answered.is_set()
        errors = [each for each in got if isinstance(each, ClientError)]
        assert len(errors) == MOST_AT_ONCE + 2
        assert all(isinstance(each, NotKafka) for each in errors)
        assert 1 in got
        ended.set()
        questions.close()
