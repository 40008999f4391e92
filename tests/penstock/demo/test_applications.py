"""The sample applications write what their tallies say, however their files are rotated."""

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from agent.config_inputs import Format, Input
from agent.events.fields import by_named_groups, fields_of_syslog
from harness.waiting import wait_until
from penstock.demo.applications.payments import PAYMENTS
from penstock.demo.applications.shop import SHOP
from penstock.demo.applications.system import SYSTEM
from penstock.demo.applications.writing import (
    SHIFTED_FILES,
    TALLY,
    Application,
    NewNames,
    Numbered,
    RotatedLog,
    Rotation,
    Shifted,
    kept,
    write,
)
from penstock.demo.counting import number_of
from penstock.demo.samples import SAMPLES, Sample, inputs, schema_text
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
START = re.compile(INPUTS["payments"].multiline.start)  # type: ignore[union-attr]


def written(application: Application, count: int) -> list[str]:
    chance = random.Random(application.name)
    return [application.event(number, AT, chance) for number in range(count)]


def numbers_of(application: str, text: str) -> Iterator[int]:
    """As whoever reads the files finds them, and knows nothing of agents."""
    for line in text.splitlines():
        if application == "shop":
            yield json.loads(line)["number"]
        elif application == "system":
            yield number_of(line)
        elif START.search(line):
            yield int(re.findall(r" - #(\d+) ", line)[0])


def logs(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name != TALLY]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_an_application_counts_what_it_writes(sample: Sample, tmp_path: Path) -> None:
    """Until SIGTERM: then every event is whole, and the tally is there."""
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-m", sample.module, str(tmp_path)],
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(
            lambda: sum(path.stat().st_size for path in logs(tmp_path)) > 20_000,
            within=60,
            what=f"lines of {sample.name}",
        )
        assert not (tmp_path / TALLY).exists()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said) == (0, b"")
    tally = kept(tmp_path / TALLY)
    texts = [path.read_text() for path in logs(tmp_path)]
    assert tally.application == sample.name
    assert tally.files == len(texts)
    assert tally.lines == sum(text.count("\n") for text in texts)
    assert all(text.endswith("\n") for text in texts)
    numbers = [number for text in texts for number in numbers_of(sample.name, text)]
    assert sorted(numbers) == list(range(tally.events))
    means = INPUTS[sample.name].paths
    for path in logs(tmp_path):
        assert any(Path(f"{FOLDER}/{sample.name}/{path.name}").match(each) for each in means)


@pytest.mark.parametrize("rotation", [Shifted("a.log"), Numbered("a"), NewNames("a")], ids=str)
def test_a_rotation_loses_nothing(rotation: Rotation, tmp_path: Path) -> None:
    log = RotatedLog(tmp_path, rotation, most_bytes=10)
    for number in range(2 * SHIFTED_FILES):
        log.write(f"{number}\n")
    log.close()
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert log.files == len(texts) > 4
    lines = [line for text in texts for line in text.splitlines()]
    assert sorted(map(int, lines)) == list(range(2 * SHIFTED_FILES))
    assert all(text.splitlines() == sorted(text.splitlines(), key=int) for text in texts)


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


def test_a_pace_is_what_is_written(tmp_path: Path) -> None:
    """Whatever a turn takes: what one turn owes, the next one writes."""
    stop = Event()

    def event(number: int, _at: datetime, _chance: random.Random) -> str:
        if number == 99:
            stop.set()
        return f"{number}\n"

    steady = Application("steady", NewNames("a"), 1 << 20, lambda _: 500.0, event)
    tally = write(steady, tmp_path, stop)
    text = (tmp_path / "a-1.log").read_text()
    assert tally.events == tally.lines == len(text.splitlines()) >= 100
    assert [*map(int, text.splitlines())] == [*range(tally.events)]


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


def test_some_payments_have_stack_traces() -> None:
    events = written(PAYMENTS, 300)
    long = [text for text in events if text.count("\n") > 1]
    assert 3 < len(long) < 60
    for text in events:
        first, *rest = text.splitlines()
        assert START.search(first)
        assert not any(START.search(line) for line in rest)


def test_its_schemas_are_events() -> None:
    for sample in SAMPLES:
        if sample.typed:
            check_event_schema(parse(schema_text(sample)))
