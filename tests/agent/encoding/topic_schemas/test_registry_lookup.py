"""A topic's schema, asked of a running registry: found, registered, or refused with a reason."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.configuration.inputs import Format
from agent.encoding.topic_schemas.registry_lookup import find, register_files
from agent.encoding.topic_schemas.values import (
    LEDGER_SCHEMA,
    Purpose,
    TopicPurpose,
    dead_letters_of,
    wanted_by,
    wanted_for,
)
from agent.errors import NoSchema
from harness.penstock.registry import RegistryProcess
from schemas.errors import RegistryError
from schemas.event_schemas import (
    ACCESS_LINE,
    DEAD_LETTER,
    HAPROXY_LINE,
    LEDGER,
    LOG_LINE,
    POSTGRESQL_LINE,
    SYSLOG_LINE,
    built_in,
)
from schemas.registry_client import RegistryClient
from tests.agent.encoding.topic_schemas.at_a_registry import (
    event,
    fields,
    new_topic,
    plain,
    with_more,
)
from tests.schemas.answering import answering, says

OPTIONAL = {"name": "user", "type": ["null", "string"], "default": None}


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


def of_fields(topic: str) -> TopicPurpose:
    return TopicPurpose(topic, Purpose.FIELDS)


def of_lines(topic: str) -> TopicPurpose:
    return TopicPurpose(topic, Purpose.LINES)


def test_what_inputs_want() -> None:
    inputs = [plain("a"), fields("b", "x.avsc"), fields("b", "y.avsc"), fields("b", "x.avsc")]
    assert wanted_by(inputs) == {
        of_lines("a"): (),
        dead_letters_of("a"): (),
        of_fields("b"): ("x.avsc", "y.avsc"),
        dead_letters_of("b"): (),
        LEDGER_SCHEMA: (),
    }
    assert LEDGER_SCHEMA not in wanted_by(inputs, ledger=False)
    assert wanted_for(plain("a")).subject == "a-value"
    docker = replace(plain("a"), format=Format.DOCKER)
    assert wanted_for(docker) == TopicPurpose("a", Purpose.EITHER)
    assert wanted_for(replace(docker, schema="a.avsc")) == of_fields("a")
    assert dead_letters_of("a").topic == "a.dead"


def test_what_comes_with_penstock_is_registered(registry: RegistryClient) -> None:
    topic = new_topic()
    for wanted, name in (
        (of_lines(topic), LOG_LINE),
        (dead_letters_of(topic), DEAD_LETTER),
        (TopicPurpose(topic + "-audit", Purpose.LEDGER), LEDGER),
    ):
        found = find(registry, wanted)
        assert (found.topic, found.version, found.schema) == (wanted.topic, 1, built_in(name))
        assert registry.schema(found.id) == built_in(name)
        assert find(registry, wanted) == found


def test_a_line_is_written_as_this_release_knows_it(registry: RegistryClient) -> None:
    """Another release has registered a later LogLine: the id is still that of this one's."""
    topic = new_topic()
    first = find(registry, of_lines(topic))
    later = with_more(built_in(LOG_LINE).text, OPTIONAL)
    registry.register(f"{topic}-value", later)
    assert find(registry, of_lines(topic)) == first
    assert find(registry, of_fields(topic)).version == 2


def test_beside_a_later_log_line_this_releases_is_registered(registry: RegistryClient) -> None:
    topic = new_topic()
    registry.register(f"{topic}-value", with_more(built_in(LOG_LINE).text, OPTIONAL))
    found = find(registry, of_lines(topic))
    assert (found.version, found.schema) == (2, built_in(LOG_LINE))


def test_lines_do_not_go_to_another_schemas_topic(registry: RegistryClient) -> None:
    """Whatever its level of compatibility lets in."""
    topic = new_topic()
    registry.register(f"{topic}-value", event(total="long"))
    registry.set_level(f"{topic}-value", "NONE")
    with pytest.raises(NoSchema, match=r"has the schema shop\.Order, but .* penstock\.LogLine"):
        find(registry, of_lines(topic))
    assert registry.versions(f"{topic}-value") == [1]


def test_messages_go_to_whatever_schema_the_topic_has(registry: RegistryClient) -> None:
    """cri and docker: a log line by default, and fields where there are some."""
    typed, untyped = new_topic(), new_topic()
    wanted = TopicPurpose(untyped, Purpose.EITHER)
    first = find(registry, wanted)
    assert (first.version, first.schema) == (1, built_in(LOG_LINE))
    registry.register(f"{untyped}-value", with_more(built_in(LOG_LINE).text, OPTIONAL))
    assert find(registry, wanted) == first
    registry.register(f"{typed}-value", event(message="string"))
    assert find(registry, TopicPurpose(typed, Purpose.EITHER)).schema.full_name == "shop.Order"


@pytest.mark.parametrize(
    ("format_", "purpose", "name"),
    [
        (Format.SYSLOG, Purpose.SYSLOG, SYSLOG_LINE),
        (Format.NGINX, Purpose.ACCESS, ACCESS_LINE),
        (Format.APACHE, Purpose.ACCESS, ACCESS_LINE),
        (Format.HAPROXY, Purpose.HAPROXY, HAPROXY_LINE),
        (Format.POSTGRESQL, Purpose.POSTGRESQL, POSTGRESQL_LINE),
    ],
)
def test_formats_of_programs_have_schemas_of_their_own(
    registry: RegistryClient, format_: Format, purpose: Purpose, name: str
) -> None:
    """On a topic that has none; the topic's own schema wins."""
    own, before, typed = new_topic(), new_topic(), new_topic()
    input_ = replace(plain(own), format=format_)
    assert wanted_for(input_) == TopicPurpose(own, purpose)
    found = find(registry, wanted_for(input_))
    assert (found.version, found.schema) == (1, built_in(name))
    assert find(registry, wanted_for(input_)) == found
    find(registry, of_lines(before))
    assert find(registry, TopicPurpose(before, purpose)).schema == built_in(LOG_LINE)
    registry.register(f"{typed}-value", event(message="string"))
    assert find(registry, TopicPurpose(typed, purpose)).schema.full_name == "shop.Order"


def test_messages_keep_the_schema_of_syslog(registry: RegistryClient) -> None:
    own = new_topic()
    for purpose in (Purpose.SYSLOG, Purpose.LINES, Purpose.EITHER):
        assert find(registry, TopicPurpose(own, purpose)).schema == built_in(SYSLOG_LINE), purpose


def test_fields_go_by_the_latest_version(registry: RegistryClient) -> None:
    topic = new_topic()
    text = event(total="long")
    registry.register(f"{topic}-value", text)
    assert find(registry, of_fields(topic)).version == 1
    number = registry.register(f"{topic}-value", with_more(text, OPTIONAL))
    found = find(registry, of_fields(topic))
    assert (found.version, found.id) == (2, number)
    assert found.schema == registry.schema(number)


def test_a_schema_may_refer_to_others(registry: RegistryClient, tmp_path: Path) -> None:
    topic, currency = new_topic(), f"shop.{new_topic().replace('-', '')}"
    enum = {"type": "enum", "name": currency, "symbols": ["CHF", "EUR"]}
    registry.register(currency, json.dumps(enum))
    path = tmp_path / "order.avsc"
    path.write_text(with_more(event(total="long"), {"name": "currency", "type": currency}))
    register_files(registry, of_fields(topic), [str(path)])
    assert '"CHF"' in find(registry, of_fields(topic)).schema.resolved_text


def test_a_topic_without_schema(registry: RegistryClient) -> None:
    topic = new_topic()
    with pytest.raises(NoSchema, match=f"topic {topic} has no schema: register one"):
        find(registry, of_fields(topic))


def test_a_schema_that_is_no_events(registry: RegistryClient) -> None:
    topic = new_topic()
    registry.register(f"{topic}-value", '{"type": "record", "name": "X", "fields": []}')
    with pytest.raises(NoSchema, match="is not an event schema: the first field must be"):
        find(registry, of_fields(topic))


def test_a_file_is_registered_once(registry: RegistryClient, tmp_path: Path) -> None:
    topic = new_topic()
    path = tmp_path / "order.avsc"
    path.write_text(event(total="long"))
    for _ in range(2):
        register_files(registry, of_fields(topic), [str(path)])
    assert registry.versions(f"{topic}-value") == [1]
    path.write_text(with_more(path.read_text(), OPTIONAL))
    register_files(registry, of_fields(topic), [str(path)])
    assert find(registry, of_fields(topic)).version == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type": "long"}', "an event is a record"),
        ('{"type": "rec', "line 1"),
        (None, "No such file"),
        ('{"type": "record", "name": "X", "fields": [{"name": "a", "type": "Y"}]}', "Y"),
    ],
)
def test_a_file_that_cannot_be_registered_is_named(
    registry: RegistryClient, tmp_path: Path, text: str | None, why: str
) -> None:
    topic = new_topic()
    path = tmp_path / "order.avsc"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoSchema, match=f"cannot register the schema {path}: .*{why}"):
        register_files(registry, of_fields(topic), [str(path)])
    assert registry.latest(f"{topic}-value") is None


def test_a_file_that_is_not_compatible_is_refused(registry: RegistryClient, tmp_path: Path) -> None:
    topic = new_topic()
    registry.register(f"{topic}-value", event(total="long"))
    path = tmp_path / "order.avsc"
    path.write_text(event(total="long", more="string"))
    with pytest.raises(NoSchema, match="more"):
        register_files(registry, of_fields(topic), [str(path)])
    assert registry.versions(f"{topic}-value") == [1]


def test_an_id_that_no_message_can_carry_is_not_believed() -> None:
    document = {"subject": "t-value", "version": 1, "id": 2**32, "schema": event(total="long")}
    with (
        answering(says(document)) as server,
        RegistryClient(server.url, patience_seconds=0) as client,
        pytest.raises(RegistryError, match="invalid id 4294967296"),
    ):
        find(client, of_fields("t"))
