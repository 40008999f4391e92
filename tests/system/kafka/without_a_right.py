"""What each program does without one of its rights: it logs which, and goes on once it has it.

There is a function for each right of the how-to's table. It is called while the right is missing,
gives it back when it has seen enough, and ends when the delayed work has been done.
"""

from collections.abc import Callable, Mapping
from http.client import INTERNAL_SERVER_ERROR, OK
from types import MappingProxyType
from typing import Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.errors import NotAllowed
from client.producing.producer import Producer
from harness.processes.server_process import RunningServer
from harness.processes.waiting import wait_until
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


class Ear:
    """What a program has logged since just before the right was taken away."""

    def __init__(self, program: RunningServer, begin: int) -> None:
        self._program = program
        self._begin = begin

    def waits_for(self, text: str) -> None:
        what = f"{text!r}, said by the program"
        wait_until(lambda: text in self._program.log()[self._begin :], within=WITHIN, what=what)


class Missing(NamedTuple):
    """A right of a pipeline that is missing until it is allowed again."""

    p: GuardedPipeline
    right: Right
    allow_again: Callable[[], None]
    spark: SparkSession

    def ear(self, program: RunningServer) -> Ear:
        return Ear(program, self.p.listened_to[program])

    @property
    def said(self) -> str:
        """Return what a program logs of the pipeline's resource that matches the pattern."""
        begin = self.right.pattern.name
        return self.right.said_of(self.p.topic if self.p.topic.startswith(begin) else begin)

    @property
    def is_prefix(self) -> bool:
        return self.right.pattern.pattern_type is PatternType.PREFIXED


Step = Callable[[Missing], None]


# The agent


def _agent_may_not_write(m: Missing) -> None:
    ear = m.ear(m.p.agent)
    m.p.write(LINES)
    ear.waits_for(m.said)
    m.allow_again()
    m.p.agent.restart()  # it would try again within a minute
    m.p.wait_until_counted()


def _agent_may_not_look(m: Missing) -> None:
    """After a kill the agent asks what became of a batch that was open."""
    ear = m.ear(m.p.agent)
    name = m.right.pattern.name
    to_write = next(each for each in RIGHTS if each.key == ("agent", "WRITE", name))
    with m.p.guarded.without(to_write.rule):
        m.p.write(LINES)
        ear.waits_for(m._replace(right=to_write).said)
        m.p.agent.kill()
    m.p.agent.start()
    ear.waits_for(m.said)
    m.p.wait_until_counted()
    m.allow_again()


def _agent_may_not_see_limits(m: Missing) -> None:
    ear = m.ear(m.p.agent)
    m.p.agent.restart()
    m.p.write(LINES)
    ear.waits_for(m.said)
    m.p.wait_until_counted()
    m.allow_again()


# The registry


def _registry_does_not_start(m: Missing) -> None:
    """This is another registry with a topic of its own, as the first one's topic exists."""
    m.allow_again()
    name = f"_schemas-{m.right.operation.name.lower()}"
    rights = [each.on(name) for each in RIGHTS if each.user == "registry"]
    m.p.guarded.allow(*(each.rule for each in rights if each.operation is not m.right.operation))
    registry = m.p.another_registry(name)
    with registry.process as process:
        process.spawn()
        assert process.wait(within=ENDS_WITHIN) == 1
    assert m.right.on(name).said_of() in registry.log()
    m.p.guarded.allow(m.right.on(name).rule)
    with registry:
        assert registry.register("anything", "string").status == OK


def _registry_may_not_read(m: Missing) -> None:
    ear = m.ear(m.p.registry)
    ear.waits_for(m.right.said_of())
    m.allow_again()
    ear.waits_for("works again")
    assert m.p.registry.register("read-again", "string").status == OK


def _registry_may_not_write(m: Missing) -> None:
    ear = m.ear(m.p.registry)
    assert m.p.registry.register("written", "string").status == INTERNAL_SERVER_ERROR
    ear.waits_for(m.right.said_of())
    m.allow_again()
    what = "the schema registered"
    wait_until(
        lambda: m.p.registry.register("written", "string").status == OK, within=WITHIN, what=what
    )


# The audit, and who counts for it


def _not_counted(m: Missing) -> None:
    ear = m.ear(m.p.count)
    m.p.write(LINES)
    ear.waits_for(m.said)
    m.allow_again()
    m.p.wait_until_counted()


def _audit_may_not_read(m: Missing) -> None:
    ear = m.ear(m.p.audit)
    ear.waits_for(m.right.said_of())
    m.allow_again()
    ear.waits_for("works again")
    m.p.write(LINES)
    m.p.wait_until_counted()


def _audit_may_not_see(m: Missing) -> None:
    """The audit must not report the topic as deleted, nor miss anything of it afterwards."""
    ear = m.ear(m.p.audit)
    m.p.audit.restart()
    found = m.p.report()
    assert found is not None
    assert not found.deleted
    ear.waits_for(m.said)
    found = m.p.report()
    assert found is not None
    assert not found.deleted
    m.allow_again()


# The loader


def _loader_may_not_read(m: Missing) -> None:
    outcome = _loaded(m)
    assert m.right.said_of(m.p.topic) in str(outcome.error)
    assert outcome.run is None
    m.allow_again()
    m.p.load(m.spark)


def _loader_is_not_taken_note_of(m: Missing) -> None:
    """Its files are there; counts that it could not report follow with the next load."""
    m.p.write(LINES)
    m.p.wait_until_counted()
    outcome = _loaded(m)
    assert outcome.error is None
    assert [each for each in outcome.warnings if m.right.said_of() in each]
    m.allow_again()
    m.p.load(m.spark)


def _loaded(m: Missing) -> TableOutcome:
    (outcome,) = load(m.p.loader, LoadRequest(), lambda: SparkWork(m.spark), Listening())
    return outcome


# Whoever sets it up


def _operator_may_not_create(m: Missing) -> None:
    name = f"{m.right.pattern.name}-to-create" if m.is_prefix else m.right.pattern.name
    with Brokers(m.p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=m.right.said_of(name)):
            create_topic(brokers, name)
        if m.is_prefix:
            m.allow_again()
            create_topic(brokers, name)


def _operator_may_not_see(m: Missing) -> None:
    name = f"{m.right.pattern.name}-to-see"
    with Brokers(m.p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=m.right.said_of(name)):
            create_topic(brokers, name)
        m.allow_again()
        assert brokers.topic(name).partitions


def _operator_may_not_say(m: Missing) -> None:
    with Brokers(m.p.guarded.bootstrap("operator")) as brokers:
        with pytest.raises(NotAllowed, match=m.right.said_of()):
            Producer(brokers, LEDGER_TOPIC, create=False)
        m.allow_again()
        Producer(brokers, LEDGER_TOPIC, create=False)


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
