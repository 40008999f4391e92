"""Overrides: changed by compare-and-set, so that nobody's change undoes another's."""

import threading
from collections.abc import Mapping

import pytest

from cluster.controller.controller import elect
from cluster.controller.topics import create_topic
from cluster.errors import ClusterError, InvalidTopicName, UnknownTopic
from cluster.layout import paths
from cluster.records.configs import BrokerResource, TopicResource, alter, get, replace
from cluster.session.session import Session
from tests.cluster.conftest import Connect, a_topic
from tests.cluster.proxy import Proxy


@pytest.fixture
def topic(session: Session) -> TopicResource:
    epoch = elect(session, 1)
    assert epoch is not None
    create_topic(session, epoch, a_topic("views"), {})
    return TopicResource("views")


def test_overrides_are_set_changed_and_removed(session: Session, topic: TopicResource) -> None:
    assert get(session, topic) == {}
    assert replace(session, topic, {"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    after = alter(session, topic, lambda now: {key: now[key] for key in now if key != "a"})
    assert after == {"b": "2"}
    assert get(session, topic) == {"b": "2"}
    replace(session, topic, {})
    assert get(session, topic) == {}


def test_brokers_have_their_own_and_some_in_common(session: Session) -> None:
    replace(session, BrokerResource(1), {"a": "1"})
    replace(session, BrokerResource(None), {"a": "2"})
    assert get(session, BrokerResource(1)) == {"a": "1"}
    assert get(session, BrokerResource(2)) == {}
    assert get(session, BrokerResource(None)) == {"a": "2"}


def test_changes_at_once_are_all_there(session: Session, connect: Connect) -> None:
    sessions = [session, connect(), connect()]

    def add(number: int) -> None:
        def change(now: Mapping[str, str]) -> Mapping[str, str]:
            return {**now, f"key{number}": str(number)}

        alter(sessions[number % 3], BrokerResource(1), change)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get(session, BrokerResource(1)) == {f"key{number}": str(number) for number in range(24)}


def test_a_lost_answer_changes_once(proxied: Session, proxy: Proxy) -> None:
    replace(proxied, BrokerResource(1), {"list": "a"})
    asked: list[str] = []

    def append(now: Mapping[str, str]) -> Mapping[str, str]:
        asked.append(now["list"])
        if len(asked) == 1:
            proxy.swallow_the_next_answer()
        return {"list": now["list"] + ",b"}

    assert alter(proxied, BrokerResource(1), append) == {"list": "a,b"}
    proxy.wait_until_swallowed()
    assert asked == ["a"]
    assert get(proxied, BrokerResource(1)) == {"list": "a,b"}


def test_a_topic_that_is_not_there_has_no_overrides(session: Session) -> None:
    with pytest.raises(UnknownTopic, match="'views'"):
        replace(session, TopicResource("views"), {"a": "1"})
    assert session.children(paths.TOPIC_CONFIGS) == ()
    with pytest.raises(InvalidTopicName):
        replace(session, TopicResource("../views"), {"a": "1"})


def test_more_than_zookeeper_takes_is_refused(session: Session) -> None:
    with pytest.raises(ClusterError, match="are allowed"):
        replace(session, BrokerResource(1), {"a": "x" * 300_000})
    replace(session, BrokerResource(1), {"a": "x" * 200_000})
