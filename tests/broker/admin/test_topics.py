"""Changing topics where more than one broker runs, and where ZooKeeper does not answer."""

import asyncio
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.configs.topic_config import ConfigChange
from broker.configs.topic_rules import NewTopic
from broker.errors import ApiError, ErrorCode
from cluster.records import configs
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from tests.broker.api.requests import unused
from tests.broker.api.running_broker import RunningBroker
from tests.broker.pairs import TIMEOUT, Pair, created, run, start
from wire.messages.incremental_alter_configs import ConfigOperation


def refused(running: RunningBroker, work: Coroutine[Any, Any, Any]) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        run(running, work)
    return error.value.code


def test_partitions_go_to_all_brokers(pair: Pair) -> None:
    first, second = pair
    name = created(first, 4, 1)
    info = second.broker.cluster.wait_for(lambda map_: name in map_.topics).topics[name]
    assert sorted(partition.leader for partition in info.partitions) == [1, 1, 2, 2]
    for partition in info.partitions:
        assert partition.isr == (partition.leader,) == partition.replicas
        assert partition.leader_epoch == 0
        assert partition.controller_epoch > 0


def test_leaders_are_spread_and_all_replicas_are_in_sync_from_the_start(pair: Pair) -> None:
    first, _ = pair
    name = created(first, 2, 2)
    partitions = first.broker.cluster.snapshot.topics[name].partitions
    assert {partition.leader for partition in partitions} == {1, 2}
    for partition in partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert set(partition.replicas) == {1, 2}


def test_more_replicas_than_brokers_are_refused(pair: Pair) -> None:
    first, _ = pair
    tripled = first.broker.topics.create(NewTopic(unused(), 1, 3), timeout_ms=TIMEOUT)
    assert refused(first, tripled) is ErrorCode.invalid_replication_factor


def test_only_the_controller_creates_deletes_and_extends(pair: Pair) -> None:
    first, second = pair
    name = created(first)
    second.broker.cluster.wait_for(lambda map_: name in map_.topics)
    topics = second.broker.topics
    code = ErrorCode.not_controller
    assert refused(second, topics.create(NewTopic(unused()), timeout_ms=TIMEOUT)) is code
    assert refused(second, topics.delete(name, None, timeout_ms=TIMEOUT)) is code
    assert refused(second, topics.add_partitions(name, 3, timeout_ms=TIMEOUT)) is code


def test_a_topic_that_a_client_asks_another_broker_about_is_to_be_asked_for_again(
    pair: Pair,
) -> None:
    _, second = pair
    code = refused(second, second.broker.topics.auto_create(unused()))
    assert code is ErrorCode.leader_not_available


def test_configs_are_altered_through_any_broker(pair: Pair) -> None:
    first, second = pair
    name = created(first)
    second.broker.cluster.wait_for(lambda map_: name in map_.topics)
    steps = [ConfigChange("retention.ms", ConfigOperation.SET, " 5 ")]
    run(second, second.broker.topics.change_configs(name, steps))
    first.broker.cluster.wait_for(
        lambda map_: map_.topic_configs.get(name) == {"retention.ms": "5"}
    )


def test_two_changes_at_once_are_both_made(pair: Pair) -> None:
    first, second = pair
    name = created(first)
    second.broker.cluster.wait_for(lambda map_: name in map_.topics)
    wanted = {f"{what}.ms": "7" for what in ("retention", "segment", "flush", "file.delete.delay")}
    under_way = [
        asyncio.run_coroutine_threadsafe(
            each.broker.topics.change_configs(name, [ConfigChange(key, ConfigOperation.SET, text)]),
            each.broker.loop,
        )
        for each, (key, text) in zip((first, second) * 2, wanted.items(), strict=True)
    ]
    for each in under_way:
        each.result(60)
    first.broker.cluster.wait_for(lambda map_: map_.topic_configs.get(name) == wanted)


def test_what_a_later_release_has_set_stays_and_can_be_removed(pair: Pair) -> None:
    first, _ = pair
    name, session = created(first), first.broker.session
    configs.replace(session, configs.TopicResource(name), {"of.a.later.release": "1"})
    first.broker.cluster.wait_for(lambda map_: name in map_.topic_configs)

    def change(key: str, operation: ConfigOperation, text: str | None) -> dict[str, str]:
        steps = [ConfigChange(key, operation, text)]
        run(first, first.broker.topics.change_configs(name, steps))
        return dict(configs.get(session, configs.TopicResource(name)))

    after = change("flush.ms", ConfigOperation.SET, "3")
    assert after == {"of.a.later.release": "1", "flush.ms": "3"}
    assert change("of.a.later.release", ConfigOperation.DELETE, None) == {"flush.ms": "3"}


def test_deleting_by_the_id_of_a_predecessor(pair: Pair) -> None:
    first, _ = pair
    name = unused()
    created = run(first, first.broker.topics.create(NewTopic(name), timeout_ms=TIMEOUT))
    stale = first.broker.topics.delete(name, uuid.uuid4(), timeout_ms=TIMEOUT)
    assert refused(first, stale) is ErrorCode.unknown_topic_id
    run(first, first.broker.topics.delete(name, created.topic_id, timeout_ms=TIMEOUT))
    assert name not in first.broker.cluster.snapshot.topics


def test_a_broker_that_was_away_deletes_what_was_deleted_meanwhile(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """And whoever deletes a topic does not wait for it: its name can be used again."""
    address = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    gone, again, stays = unused(), unused(), unused()
    data = tmp_path / "2"

    def lies_there() -> set[str]:
        return {each.name for each in data.iterdir() if each.is_dir()}

    with start(tmp_path, address, 1) as first:
        topics, view = first.broker.topics, first.broker.cluster
        with start(tmp_path, address, 2):
            view.wait_for(lambda map_: map_.brokers.keys() == {1, 2})
            for name in (gone, again, stays):
                on_both = NewTopic(name, assignment={0: (2,), 1: (1,)})
                run(first, topics.create(on_both, timeout_ms=TIMEOUT))
            wait_until(lambda: lies_there() == {f"{name}-0" for name in (gone, again, stays)})
        view.wait_for(lambda map_: map_.brokers.keys() == {1})
        for name in (gone, again):
            run(first, topics.delete(name, None, timeout_ms=TIMEOUT))
        run(first, topics.create(NewTopic(again, 1, 1), timeout_ms=TIMEOUT))
        assert set(view.snapshot.owed_deletions.values()) == {frozenset({2})}
        with start(tmp_path, address, 2):
            view.wait_for(lambda map_: not map_.owed_deletions)
            assert f"{stays}-0" in lies_there()
            assert not any(name.endswith("-stray") for name in lies_there())
        assert lies_there() == {f"{stays}-0"}


def test_without_zookeeper_a_change_is_refused_and_what_is_known_stands(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper.start(tmp_path / "zookeeper", port=0)
    try:
        with start(tmp_path, server.address, 1, session_seconds=2) as alone:
            topics = alone.broker.topics
            name = created(alone)
            server.stop()
            steps = [ConfigChange("flush.ms", ConfigOperation.SET, "3")]
            code = refused(alone, topics.change_configs(name, steps))
            assert code is ErrorCode.request_timed_out
            code = refused(alone, topics.create(NewTopic(unused()), timeout_ms=1_000))
            assert code in {ErrorCode.request_timed_out, ErrorCode.not_controller}
            assert name in alone.broker.cluster.snapshot.topics
    finally:
        server.stop()
