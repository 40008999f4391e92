"""The schemas of an agent's topics over time: registries that are away, versions that come."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.configuration.inputs import Input
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from schemas.registry_client import RegistryClient
from tests.agent.encoding.topic_schemas.at_a_registry import (
    event,
    fields,
    new_topic,
    plain,
    with_more,
)
from tests.schemas.answering import Handler, answering, refuses, says

OPTIONAL = {"name": "user", "type": ["null", "string"], "default": None}


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


@contextmanager
def following(
    url: str,
    directory: Path,
    *inputs: Input,
    auto_register: bool = False,
    interval: float = 0.05,
    attempt_seconds: float = 5.0,
    tell: Callable[[], None] = lambda: None,
) -> Iterator[TopicSchemas]:
    schemas = TopicSchemas(
        url,
        directory,
        auto_register=auto_register,
        ledger=False,
        interval=interval,
        attempt_seconds=attempt_seconds,
        tell=tell,
    )
    try:
        schemas.want(inputs)
        schemas.start()
        yield schemas
    finally:
        schemas.close()


def away() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}"


def test_all_is_found_and_a_restart_needs_no_registry(
    running_registry: RegistryProcess, tmp_path: Path
) -> None:
    each = plain(new_topic())
    with following(running_registry.url, tmp_path, each) as schemas:
        wait_until(lambda: not schemas.missing(each))
        lines, dead = schemas.of(each), schemas.dead_letters(each.topic)
        assert lines is not None
        assert dead is not None
        assert schemas.ledger is None
    url = f"{running_registry.url},{away()}"
    again = TopicSchemas(url, tmp_path)
    assert (again.of(each), again.dead_letters(each.topic)) == (lines, dead)
    assert again.missing(each) == ""
    again.close()


def test_a_registry_that_is_away_is_named_once_and_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    each = plain("t")
    with following(away(), tmp_path, each) as schemas:
        wait_until(lambda: schemas.trouble)
        assert "connection refused" in schemas.missing(each)
        assert schemas.of(each) is None
        time.sleep(0.3)
    assert caplog.text.count("registry not reachable") == 1


def test_a_schema_is_taken_up_when_somebody_registers_it(
    registry: RegistryClient, running_registry: RegistryProcess, tmp_path: Path
) -> None:
    topic = new_topic()
    each = fields(topic)
    told = threading.Event()
    with following(running_registry.url, tmp_path, each, tell=told.set) as schemas:
        wait_until(lambda: "has no schema" in schemas.missing(each))
        told.clear()
        registry.register(f"{topic}-value", event(total="long"))
        assert told.wait(60)
        wait_until(lambda: not schemas.missing(each))


def test_new_versions_are_taken_up_and_wrong_ones_are_not(
    registry: RegistryClient,
    running_registry: RegistryProcess,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = new_topic()
    each = fields(topic)
    registry.register(f"{topic}-value", event(total="long"))
    registry.set_level(f"{topic}-value", "NONE")

    def version() -> int:
        found = schemas.of(each)
        return found.version if found else 0

    with following(running_registry.url, tmp_path, each) as schemas:
        wait_until(lambda: version() == 1)
        registry.register(f"{topic}-value", with_more(event(total="long"), OPTIONAL))
        wait_until(lambda: version() == 2)
        registry.register(f"{topic}-value", '"string"')
        wait_until(lambda: "version 3" in schemas.warning(each))
        time.sleep(0.3)
        assert (version(), schemas.missing(each)) == (2, "")
        registry.register(f"{topic}-value", event(total="double"))
        wait_until(lambda: version() == 4)
        assert schemas.warning(each) == ""
        registry.delete_subject(f"{topic}-value")
        wait_until(lambda: "has no schema" in schemas.warning(each))
        assert version() == 4
    assert caplog.text.count("version 3 of subject") == 1


def test_its_own_file_is_registered_only_where_that_is_allowed(
    registry: RegistryClient, running_registry: RegistryProcess, tmp_path: Path
) -> None:
    topic = new_topic()
    path = tmp_path / "order.avsc"
    path.write_text(event(total="long"))
    each = fields(topic, str(path))
    with following(running_registry.url, tmp_path / "a", each) as schemas:
        wait_until(lambda: "has no schema" in schemas.missing(each))
    assert registry.latest(f"{topic}-value") is None
    with following(running_registry.url, tmp_path / "b", each, auto_register=True) as schemas:
        wait_until(lambda: not schemas.missing(each))
        path.write_text(event(total="string"))
        wait_until(lambda: "cannot register the schema" in schemas.warning(each))
        assert schemas.missing(each) == ""
    assert registry.versions(f"{topic}-value") == [1]


def test_one_topics_trouble_is_not_anothers(
    registry: RegistryClient, running_registry: RegistryProcess, tmp_path: Path
) -> None:
    """A plain input that a team drops in stops nobody who writes fields to that topic."""
    topic = new_topic()
    registry.register(f"{topic}-value", event(total="long"))
    wrong, right = plain(topic), fields(topic)
    with following(running_registry.url, tmp_path, wrong, right) as schemas:
        wait_until(lambda: not schemas.missing(right))
        wait_until(lambda: "would write penstock.LogLine" in schemas.missing(wrong))


def test_inputs_may_change(running_registry: RegistryProcess, tmp_path: Path) -> None:
    first, second = plain(new_topic()), plain(new_topic())
    with following(running_registry.url, tmp_path, first, interval=60) as schemas:
        wait_until(lambda: not schemas.missing(first))
        schemas.want([second])
        wait_until(lambda: not schemas.missing(second))


def test_what_is_found_is_not_asked_for_again_in_vain(tmp_path: Path) -> None:
    """Only a topic's own schema may get a new version."""
    topic = "t"
    document = {"subject": "t-value", "version": 1, "id": 5, "schema": event(total="long")}
    with answering(says(document)) as server:
        each = fields(topic)
        with following(server.url, tmp_path, each) as schemas:
            wait_until(lambda: schemas.of(each))
            wait_until(lambda: len(server.asked) > 10)
    assert server.paths.count("/subjects/t-value/versions/latest") > 3


def test_a_registry_that_refuses_for_a_while_is_away(tmp_path: Path) -> None:
    with answering(refuses(500, 50002, "no broker")) as server:
        each = fields("t")
        with following(server.url, tmp_path, each) as schemas:
            wait_until(lambda: schemas.trouble)
            assert "no broker" in schemas.missing(each)


def test_a_disk_that_is_full_is_no_reason_to_stop(
    running_registry: RegistryProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    each = plain(new_topic())
    with following(running_registry.url, tmp_path / "absent", each) as schemas:
        wait_until(lambda: not schemas.missing(each))
        wait_until(lambda: "cannot cache" in caplog.text)


def test_it_ends_while_a_registry_does_not_answer(tmp_path: Path) -> None:
    def waits(handler: Handler) -> None:
        handler.close_connection = True
        handler.server.over.wait(60)

    with answering(waits) as server:
        with following(server.url, tmp_path, fields("t"), attempt_seconds=0.5):
            wait_until(lambda: server.asked)
            began = time.monotonic()
        assert time.monotonic() - began < 18
