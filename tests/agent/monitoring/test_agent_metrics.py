"""What Prometheus gets to see: everything that an agent's status has to say in numbers."""

from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.configuration.refusals import Refusal
from agent.monitoring.metrics import families
from agent.monitoring.status import (
    AgentPhase,
    InputStatus,
    JournalStatus,
    ProcessStatus,
    Status,
    TopicStatus,
)
from ground.http.exposition import exposition_of


def numbered(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """A different number for every number of the struct."""
    names = [each.name for each in msgspec.structs.fields(struct) if each.type in {int, float}]
    return {name: 10.0 + place for place, name in enumerate(names)}


def everything() -> Status:
    return Status(
        phase=AgentPhase.RUNNING,
        version="1.2.3",
        agent="a1",
        host="web-1",
        cluster="dc1",
        registry="nobody answers",
        loaded_millis=5_000,
        inputs=(InputStatus(name="i", topic="t", stopped="no schema", **numbered(InputStatus)),),
        topics=(TopicStatus(name="t", **numbered(TopicStatus)),),
        refusals=(Refusal(path="x", why="y"),),
        journal=JournalStatus(full="no space", **numbered(JournalStatus)),
        process=ProcessStatus(over_memory=True, **numbered(ProcessStatus)),
    )


def samples(status: Status) -> dict[tuple[str, str], float]:
    """Each sample by its name and its labels' values, as Prometheus's own parser reads them."""
    text = exposition_of(lambda: families(status))().decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("penstock_agent")
    }


def test_every_number_is_shown() -> None:
    status = everything()
    shown = samples(status)
    for struct, prefix, labels, hidden in (
        (status.inputs[0], "", "i,t", {"size"}),
        (status.topics[0], "topic_", "t", {"schema_id"}),
        (status.journal, "journal_", "", {"generation"}),
        (status.process, "", "", {"resident_bytes", "cpu_seconds"}),
    ):
        values = {value for (name, where), value in shown.items() if where == labels}
        for name, number in numbered(type(struct)).items():
            assert number in values or name in hidden, f"{prefix}{name}"


def test_samples() -> None:
    shown = samples(everything())
    lag = next(each for each in numbered(InputStatus).items() if each[0] == "lag_bytes")[1]
    assert shown["penstock_agent_lag_bytes", "i,t"] == lag
    assert ("penstock_agent_events_total", "i,t") in shown
    assert ("penstock_agent_topic_events_total", "t") in shown
    assert shown["penstock_agent_input_stopped", "i,t"] == 1
    assert shown["penstock_agent_input_warning", "i,t"] == 0
    assert shown["penstock_agent_journal_full", ""] == 1
    assert shown["penstock_agent_ready", ""] == 0
    assert shown["penstock_agent_registry_reachable", ""] == 0
    assert shown["penstock_agent_refused_files", ""] == 1
    assert shown["penstock_agent_configuration_seconds", ""] == 5
    assert shown["penstock_agent_info", "a1,dc1,web-1,running,1.2.3"] == 1


def test_an_agent_that_has_only_just_begun_can_be_scraped() -> None:
    status = Status(phase=AgentPhase.STARTING, version="1")
    assert samples(status)["penstock_agent_ready", ""] == 0
    assert b"process_resident_memory_bytes" in exposition_of(lambda: families(status))()


@pytest.mark.parametrize("status", [everything(), Status(phase=AgentPhase.RUNNING, version="1")])
def test_no_name_is_given_twice(status: Status) -> None:
    names = [family.name for family in families(status)]
    assert len(names) == len(set(names))
