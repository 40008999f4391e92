"""The sample applications write what their tallies say, however their files are rotated."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.configuration.inputs import Format, Input
from agent.encoding.events.fields import by_named_groups, fields_of_syslog
from penstock.demo.applications.log_writer import SHIFTED_FILES, Application, RotatedLog, Shifted
from penstock.demo.applications.payments import PAYMENTS
from penstock.demo.applications.shop import SHOP
from penstock.demo.applications.system import SYSTEM
from penstock.demo.counts import number_of
from penstock.demo.samples import SAMPLES, inputs, schema_text
from schemas.definitions.types import Record
from schemas.event_schemas import check_event_schema
from schemas.parsing import parse

APPLICATIONS = (SHOP, PAYMENTS, SYSTEM)
AT = datetime(2026, 11, 20, 7, 12, 0, 123456, UTC)
FOLDER = "/logs"
INPUTS = {
    each.topic: each
    for each in msgspec.convert(inputs(FOLDER)["inputs"], tuple[Input, ...], strict=True)
}


def written(application: Application, count: int) -> list[str]:
    chance = random.Random(application.name)
    return [application.event(number, AT, chance) for number in range(count)]


def test_old_files_of_a_shifted_log_are_deleted(tmp_path: Path) -> None:
    log = RotatedLog(tmp_path, Shifted("a.log"), most_bytes=1)
    for number in range(SHIFTED_FILES + 5):
        log.write(f"{number}\n")
    log.close()
    there = {path.name: path.read_text() for path in tmp_path.iterdir()}
    newest = SHIFTED_FILES + 4
    assert there == {
        f"a.log.{age}" if age else "a.log": f"{newest - age}\n" for age in range(SHIFTED_FILES + 1)
    }


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda each: each.name)
def test_an_agent_is_told_how_to_read_it(application: Application) -> None:
    """Every event becomes fields of the topic's schema, its number among them."""
    sample = next(each for each in SAMPLES if each.name == application.name)
    formats: dict[Format, Callable[[bytes], dict[str, Any]]] = {
        Format.JSON: json.loads,
        Format.SYSLOG: fields_of_syslog,
        Format.REGEX: by_named_groups(INPUTS[sample.name].pattern or "(?P<none>)"),
    }
    read = formats[INPUTS[sample.name].format]
    for number, text in enumerate(written(application, 300)):
        fields = read(text.rstrip("\n").encode())
        assert fields.keys() >= {"time"}
        found = fields["number"] if sample.typed else number_of(fields["message"])
        assert int(found) == number
        if sample.typed:
            event = parse(schema_text(sample)).type
            assert isinstance(event, Record)
            wanted = {each.name for each in event.fields} - {"header"}
            assert fields.keys() - {"time"} == wanted


def test_its_schemas_are_events() -> None:
    for sample in SAMPLES:
        if sample.typed:
            check_event_schema(parse(schema_text(sample)))
