"""The whole interface as a table: what a real Confluent registry answered is answered here.

Some 1,300 requests are sent, in their order, to one fresh registry on a Penstock broker; each file
of them is a test, which names the answers that differ. `interface/README.md` says how they were
recorded.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
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


@pytest.mark.parametrize("file", sorted({file for file, _ in SENT}))
def test_the_answers_are_confluents(file: str, answers: dict[str, dict[str, Any]]) -> None:
    different = {
        key(file, step): said
        for of, step in SENT
        if of == file and (said := difference(file, step, answers[key(file, step)]))
    }
    assert not different


def difference(file: str, step: dict[str, Any], answer: dict[str, Any]) -> str:
    """What of an answer is not as it should be; empty if all is."""
    other = another(file, step)
    if other is not None:
        status, code = other
        is_right = answer["status"] == status and (
            code is None or answer["body"]["error_code"] == code
        )
        return "" if is_right else f"{other} is wanted: {answer}"
    wanted = expected(step)
    if answer["status"] != wanted.status:
        return f"status {wanted.status} is wanted: {answer}"
    if wanted.body is not None and comparable(step["request"], answer["body"]) != wanted.body:
        return f"{wanted.body} is wanted: {answer}"
    if wanted.content_type is not None and answer["content_type"] != wanted.content_type:
        return f"{wanted.content_type} is wanted: {answer}"
    if wanted.allow is not None and answer["headers"]["Allow"] != wanted.allow:
        return f"{wanted.allow} is wanted: {answer}"
    return ""


def test_every_step_has_a_name_of_its_own() -> None:
    names = [key(file, step) for file, step in STEPS]
    assert len(set(names)) == len(names)


def test_every_difference_is_of_a_step_that_is_sent() -> None:
    sent = {key(file, step) for file, step in SENT}
    assert {name for steps in ANOTHER.values() for name in steps} <= sent


def test_nearly_everything_is_sent() -> None:
    assert len(SENT) > 1250
    assert len(STEPS) - len(SENT) < 60
