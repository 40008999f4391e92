"""Whether topics are configured as an agent needs them: as values, and asked of both brokers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.config_check import (
    check_inputs,
    check_missing,
    check_topics,
    problems_of,
    remarks_on,
    topics_of,
)
from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Input
from agent.configuration.system_journal import SystemJournal
from client.admin.new_topics import NewTopics
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers

INPUT = Input(paths=("/var/log/x",), topic="t")
CONFIG = AgentConfig(inputs=(INPUT,))
AS_NEEDED = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "message.timestamp.difference.max.ms": str(2**63 - 1),
    "max.message.bytes": "1048588",
}


def test_which_topics() -> None:
    other = Input(paths=("/x",), topic="t", name="other")
    assert topics_of([INPUT, other], ledger=True) == ["t", "t.dead", "_audit"]
    assert topics_of([INPUT], ledger=False) == ["t", "t.dead"]


def test_a_topic_as_it_should_be() -> None:
    assert list(problems_of(AS_NEEDED)) == []
    assert list(remarks_on("t", AS_NEEDED, CONFIG)) == []
    assert list(problems_of({})) == list(remarks_on("t", {}, CONFIG)) == []


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"compression.type": "gzip"}, "compression.type is gzip"),
        ({"message.timestamp.type": "LogAppendTime"}, "would lose their time"),
        ({"cleanup.policy": "compact,delete"}, "would be refused"),
    ],
)
def test_what_does_not_work(configs: Mapping[str, str], said: str) -> None:
    (problem,) = problems_of({**AS_NEEDED, **configs})
    assert said in problem


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"retention.ms": "604800000"}, "retention.ms is 7 days"),
        ({"message.timestamp.before.max.ms": "3600000"}, "is 3,600,000 ms"),
        ({"message.timestamp.after.max.ms": "1000"}, "after.max.ms is 1,000 ms"),
        ({"max.message.bytes": "100000"}, "max.message.bytes is 100,000"),
    ],
)
def test_what_is_worth_knowing(configs: Mapping[str, str], said: str) -> None:
    (remark,) = remarks_on("t", {**AS_NEEDED, **configs}, CONFIG)
    assert said in remark


def test_the_ledgers_entries_are_of_the_time_at_which_they_are_written() -> None:
    configs = {**AS_NEEDED, "retention.ms": "1", "message.timestamp.before.max.ms": "1"}
    assert list(remarks_on("_audit", configs, CONFIG)) == []
    (remark,) = remarks_on("_audit", {**configs, "max.message.bytes": "100000"}, CONFIG)
    assert "max.message.bytes" in remark


def test_a_topic_that_brokers_would_make_is_judged_before_it_is_there() -> None:
    made = NewTopics(
        at_first_use=True, partitions="3", configs={**AS_NEEDED, "compression.type": "gzip"}
    )
    check = check_missing("t", made, CONFIG)
    (problem,), (remark,) = check.problems, check.remarks
    assert "compression.type is gzip" in problem
    assert "num.partitions=3" in remark


def test_a_topic_that_nobody_would_make_is_a_problem_with_its_cure() -> None:
    made = NewTopics(at_first_use=False, partitions="1", configs=AS_NEEDED)
    (problem,) = check_missing("t", made, CONFIG).problems
    assert "penstock topics create t" in problem
    dead = check_missing("t.dead", made, CONFIG)
    assert dead.problems == ()
    assert "penstock topics create t.dead" in dead.remarks[0]


def test_what_brokers_do_not_tell_is_left_to_whoever_runs_them() -> None:
    check = check_missing("t", None, CONFIG)
    assert check.problems == ()
    assert "create it, or let the brokers do so" in check.remarks[0]


@pytest.mark.parametrize("cluster", ["running_broker", "running_kafka"])
def test_topics_of_a_running_cluster(
    request: pytest.FixtureRequest, cluster: str, new_topic: str
) -> None:
    bootstrap = request.getfixturevalue(cluster).bootstrap
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=2, configs={"max.message.bytes": "100000"})
        there, missing = check_topics(brokers, CONFIG, [new_topic, f"{new_topic}.dead"])
    assert (there.partitions, missing.partitions) == (2, 0)
    assert there.problems == missing.problems == ()
    assert any("retention.ms is 7 days" in each for each in there.remarks)
    assert any("max.message.bytes is 100,000" in each for each in there.remarks)
    assert "does not exist yet: brokers create it at first use" in missing.remarks[0]
    assert any("retention.ms is 7 days" in each for each in missing.remarks)


@pytest.mark.parametrize(("cluster", "packs"), [("running_broker", 0), ("running_kafka", 1)])
def test_a_topic_that_kafka_packs_anew(
    request: pytest.FixtureRequest, cluster: str, packs: int, new_topic: str
) -> None:
    """Penstock keeps the config, and leaves batches as they are."""
    bootstrap = request.getfixturevalue(cluster).bootstrap
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        create_topic(brokers, new_topic, configs={"compression.type": "lz4"})
        (check,) = check_topics(brokers, CONFIG, [new_topic])
    assert len(check.problems) == packs
    assert all("compression.type is lz4" in problem for problem in check.problems)


def test_the_journal_of_an_input(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    inputs = [
        Input(topic="t", journal=SystemJournal(directory=directory))
        for directory in (missing, str(tmp_path))
    ]
    config = AgentConfig(inputs=tuple(inputs[:1]), data_dir=str(tmp_path))
    checks = check_inputs(config, inputs, None)
    (problem,) = checks[0].problems
    assert problem.startswith(f"{missing}: journalctl ended with exit code")
    assert [check.remarks for check in checks] == [(), (f"{tmp_path}: there are no journal files",)]
    assert checks[1].problems == ()
