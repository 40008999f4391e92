"""What each program does without one of its rights: it says which, on what and for whom, and goes
on when the right is there.

A function for each right of the how-to's table. It is called while the right is missing, gives it
back when it has seen enough, and ends when what was held up has happened.
"""

from collections.abc import Callable, Mapping
from http.client import INTERNAL_SERVER_ERROR, OK
from types import MappingProxyType
from typing import Final

import pytest
from pyspark.sql import SparkSession

from client.admin import create_topic
from client.brokers import Brokers
from client.errors import NotAllowed
from client.producer import Producer
from harness.server_process import RunningServer
from harness.waiting import wait_until
from ledger.names import LEDGER_TOPIC
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome
from loader.run.spark_work import SparkWork
from tests.loader.loads import Listening
from tests.system.kafka.guarded_pipeline import GuardedPipeline
from tests.system.kafka.rights import RIGHTS, Right
from wire.acls import PatternType

WITHIN: Final = 240.0
ENDS_WITHIN: Final = 300.0  # a program that says why it does not start, on a busy machine
LINES: Final = 20
AllowAgain = Callable[[], None]
Step = Callable[[GuardedPipeline, Right, AllowAgain, SparkSession], None]


class Ear:
    """What a program has said since the right was about to be taken away."""

    def __init__(self, p: GuardedPipeline, program: RunningServer) -> None:
        self._program = program
        self._begin = p.listened_to[program]

    def waits_for(self, text: str) -> None:
        what = f"{text!r}, said by the program"
        wait_until(lambda: text in self._said(), within=WITHIN, what=what, every=0.05)

    def _said(self) -> str:
        return self._program.log()[self._begin :]


def _name(p: GuardedPipeline, right: Right) -> str:
    """Of the resource of the pipeline that falls under the pattern."""
    return p.topic if p.topic.startswith(right.pattern.name) else right.pattern.name


# The agent


def _agent_may_not_write(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.agent)
    p.write(LINES)
    ear.waits_for(right.said_of(_name(p, right)))
    allow_again()
    p.agent.restart()  # it would try again within a minute
    p.wait_until_counted()


def _agent_may_not_look(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    """After a kill it wants to know what became of a batch that was open."""
    ear = Ear(p, p.agent)
    name = right.pattern.name
    to_write = next(each for each in RIGHTS if each.key == ("agent", "WRITE", name))
    with p.guarded.without(to_write.rule):
        p.write(LINES)
        ear.waits_for(to_write.said_of(_name(p, right)))
        p.agent.kill()
    p.agent.start()
    ear.waits_for(right.said_of(_name(p, right)))
    p.wait_until_counted()
    allow_again()


def _agent_may_not_see_limits(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.agent)
    p.agent.restart()
    p.write(LINES)
    ear.waits_for(right.said_of(_name(p, right)))
    p.wait_until_counted()
    allow_again()


# The registry


def _registry_does_not_start(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    """Another one, with a topic of its own: that of the first is there."""
    allow_again()
    name = f"_schemas-{right.operation.name.lower()}"
    rights = [each.on(name) for each in RIGHTS if each.user == "registry"]
    p.guarded.allow(*(each.rule for each in rights if each.operation is not right.operation))
    registry = p.another_registry(name)
    with registry.process as process:
        process.spawn()
        assert process.wait(within=ENDS_WITHIN) == 1
    assert right.on(name).said_of() in registry.log()
    p.guarded.allow(right.on(name).rule)
    with registry:
        assert registry.register("anything", "string").status == OK


def _registry_may_not_read(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.registry)
    ear.waits_for(right.said_of())
    allow_again()
    ear.waits_for("works again")
    assert p.registry.register("read-again", "string").status == OK


def _registry_may_not_write(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.registry)
    assert p.registry.register("written", "string").status == INTERNAL_SERVER_ERROR
    ear.waits_for(right.said_of())
    allow_again()
    what = "the schema registered"
    wait_until(
        lambda: p.registry.register("written", "string").status == OK, within=WITHIN, what=what
    )


# The audit, and who counts for it


def _not_counted(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.count)
    p.write(LINES)
    ear.waits_for(right.said_of(_name(p, right)))
    allow_again()
    p.wait_until_counted()


def _audit_may_not_read(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    ear = Ear(p, p.audit)
    ear.waits_for(right.said_of())
    allow_again()
    ear.waits_for("works again")
    p.write(LINES)
    p.wait_until_counted()


def _audit_may_not_see(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    """Which is not to say that the topic was deleted, and nothing of it is missed any more."""
    ear = Ear(p, p.audit)
    p.audit.restart()
    found = p.report()
    assert found is not None
    assert not found.deleted
    ear.waits_for(right.said_of(_name(p, right)))
    found = p.report()
    assert found is not None
    assert not found.deleted
    allow_again()


# The loader


def _loader_may_not_read(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, spark: SparkSession
) -> None:
    outcome = _loaded(p, spark)
    assert right.said_of(p.topic) in str(outcome.error)
    assert outcome.run is None
    allow_again()
    p.load(spark)


def _loader_is_not_taken_note_of(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, spark: SparkSession
) -> None:
    """Its files are there; what it could not tell, it tells with the next load."""
    p.write(LINES)
    p.wait_until_counted()
    outcome = _loaded(p, spark)
    assert outcome.error is None
    assert [each for each in outcome.warnings if right.said_of() in each]
    allow_again()
    p.load(spark)


def _loaded(p: GuardedPipeline, spark: SparkSession) -> TableOutcome:
    (outcome,) = load(p.loader, LoadRequest(), lambda: SparkWork(spark), Listening())
    return outcome


# Whoever sets it up


def _operator_may_not_create(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    name = f"{right.pattern.name}-to-create" if _is_prefix(right) else right.pattern.name
    with Brokers(p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=right.said_of(name)):
            create_topic(brokers, name)
        if _is_prefix(right):
            allow_again()
            create_topic(brokers, name)


def _operator_may_not_see(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    name = f"{right.pattern.name}-to-see"
    with Brokers(p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=right.said_of(name)):
            create_topic(brokers, name)
        allow_again()
        assert brokers.topic(name).partitions


def _operator_may_not_say(
    p: GuardedPipeline, right: Right, allow_again: AllowAgain, _: SparkSession
) -> None:
    with Brokers(p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=right.said_of()):
            Producer(brokers, LEDGER_TOPIC, create=False)
        allow_again()
        Producer(brokers, LEDGER_TOPIC, create=False)


def _is_prefix(right: Right) -> bool:
    return right.pattern.pattern_type is PatternType.PREFIXED


WITHOUT: Final[Mapping[tuple[str, str, str], Step]] = MappingProxyType(
    {
        ("operator", "CREATE", "shop"): _operator_may_not_create,
        ("operator", "DESCRIBE", "shop"): _operator_may_not_see,
        ("operator", "CREATE", "_audit"): _operator_may_not_create,
        ("operator", "WRITE", "_audit"): _operator_may_not_say,
        ("registry", "CREATE", "_schemas"): _registry_does_not_start,
        ("registry", "READ", "_schemas"): _registry_may_not_read,
        ("registry", "WRITE", "_schemas"): _registry_may_not_write,
        ("registry", "DESCRIBE_CONFIGS", "_schemas"): _registry_does_not_start,
        ("agent", "WRITE", "shop"): _agent_may_not_write,
        ("agent", "READ", "shop"): _agent_may_not_look,
        ("agent", "DESCRIBE_CONFIGS", "shop"): _agent_may_not_see_limits,
        ("agent", "WRITE", "_audit"): _agent_may_not_write,
        ("agent", "READ", "_audit"): _agent_may_not_look,
        ("agent", "DESCRIBE_CONFIGS", "_audit"): _agent_may_not_see_limits,
        ("count", "READ", "shop"): _not_counted,
        ("count", "WRITE", "_audit"): _not_counted,
        ("audit", "READ", "_audit"): _audit_may_not_read,
        ("audit", "DESCRIBE", "shop"): _audit_may_not_see,
        ("loader", "READ", "shop"): _loader_may_not_read,
        ("loader", "READ", "penstock-loader"): _loader_is_not_taken_note_of,
        ("loader", "WRITE", "_audit"): _loader_is_not_taken_note_of,
    }
)
