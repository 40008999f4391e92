"""The whole interface as a table: what a real Confluent registry answered is answered here.

Some 1,300 requests are sent, in their order, to one fresh registry on a Penstock broker; each is a
test of its own. `interface/README.md` says how they were recorded.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.registry.interface_differences import ANOTHER, another, comparable, expected, left_out
from tests.registry.record_interface import ask, table

STEPS = [(file.name, step) for file in table() for step in json.loads(file.read_text())]
SENT = [(file, step) for file, step in STEPS if not left_out(step)]


def key(file: str, step: dict[str, Any]) -> str:
    return f"{file[:2]} {step['name']}"


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[dict[str, dict[str, Any]]]:
    """What our registry answers to all of it."""
    directory = tmp_path_factory.mktemp("interface")
    settings = {"topic": "_schemas_of_the_interface"}
    with RegistryProcess(
        directory, brokers=running_broker.bootstrap, settings=settings
    ) as registry:
        yield {key(file, step): ask(registry.url, step["request"]) for file, step in SENT}
        assert "Traceback" not in registry.log()


@pytest.mark.parametrize(("file", "step"), SENT, ids=[key(*sent) for sent in SENT])
def test_the_answer_is_confluents(
    file: str, step: dict[str, Any], answers: dict[str, dict[str, Any]]
) -> None:
    answer = answers[key(file, step)]
    other = another(file, step)
    if other is not None:
        status, code = other
        assert answer["status"] == status
        assert code is None or answer["body"]["error_code"] == code
        return
    wanted = expected(step)
    assert answer["status"] == wanted.status, answer
    if wanted.body is not None:
        assert comparable(step["request"], answer["body"]) == wanted.body
    if wanted.content_type is not None:
        assert answer["content_type"] == wanted.content_type
    if wanted.allow is not None:
        assert answer["headers"]["Allow"] == wanted.allow


def test_every_step_has_a_name_of_its_own() -> None:
    names = [key(file, step) for file, step in STEPS]
    assert len(set(names)) == len(names)


def test_every_difference_is_of_a_step_that_is_sent() -> None:
    sent = {key(file, step) for file, step in SENT}
    assert {name for steps in ANOTHER.values() for name in steps} <= sent


def test_nearly_everything_is_sent() -> None:
    assert len(SENT) > 1250
    assert len(STEPS) - len(SENT) < 60
