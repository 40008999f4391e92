"""Lines that the programs themselves have written, as events of Penstock's schemas."""

import json

import pytest

from agent.configuration.config import Times
from agent.configuration.inputs import Format
from agent.configuration.lines import Language, Multiline, Time
from agent.encoding.events.presets import PRESETS
from agent.encoding.events.reader import EventReader
from agent.encoding.lines.faults import LineFault
from tests.agent.encoding.events.reading import input_of, read, reader_of
from tests.agent.encoding.samples.events import EXPECTED, FORMATS, SAMPLES, events_of


@pytest.mark.parametrize("name", FORMATS)
def test_lines_of_programs(name: str) -> None:
    assert events_of(name) == json.loads(EXPECTED.read_text())[name]


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        (Language.JAVA, [1, 10, 1, 6]),
        # A traceback without a logger's line continues whatever is before it.
        (Language.PYTHON, [1, 15, 1, 23]),
        (Language.GO, [1, 1, 10]),
        # Ruby shows the line of the error, which here is not indented.
        (Language.RUBY, [1, 4, 1, 2, 3]),
    ],
)
def test_stack_traces(language: Language, lines: list[int]) -> None:
    data = (SAMPLES / f"{language}.log").read_bytes()
    bodies = read(reader_of(multiline=Multiline(language=language)), data).bodies
    assert [body.count(b"\n") + 1 for body in bodies] == lines


@pytest.mark.parametrize(
    ("format_", "line", "reason"),
    [
        (Format.NGINX, '::1 - - [20/Nov/2026:14:00:00 +0000] "GET /" 200 1 "-"', "access log"),
        (Format.APACHE, "[Fri Nov 20 14:00:00 2026] [core:notice] resuming", "access log"),
        (Format.POSTGRESQL, "2026-11-20 14:00:00 UTC [1] LOG without a colon", "a severity"),
    ],
)
def test_what_is_not_of_the_format(format_: Format, line: str, reason: str) -> None:
    with pytest.raises(LineFault, match=reason):
        PRESETS[format_].parse(line.encode())


@pytest.mark.parametrize(
    ("zone", "times", "reason"),
    [
        # An hour that comes twice, by its abbreviation, and a zone without one.
        ("Europe/Zurich", ["2026-10-25 02:30:00.5 CEST", "2026-10-25 00:30:00.5 UTC"], ""),
        ("Europe/Zurich", ["2026-10-25 02:30:00 CET", "2026-10-25 04:30:00 +03"], ""),
        ("UTC", ["2026-10-25 02:30:00 CET"], "CET is not a time of UTC: set `time: {field: time"),
        ("Europe/Zurich", ["2026-10-25 99:30:00 CET"], "'2026-10-25 99:30:00' is not a time"),
        ("UTC", ["2026-10-25 99:30:00 UTC"], "is not an ISO 8601 time"),
    ],
)
def test_times_of_postgresql(zone: str, times: list[str], reason: str) -> None:
    input_ = input_of(format=Format.POSTGRESQL, time=Time(field="time", zone=zone))
    data = "".join(f"{at} [1] LOG:  x\n" for at in times).encode()
    outcome = read(EventReader(input_, None, Times()), data)
    assert len(set(outcome.times)) == (not reason)
    assert len(outcome.dead) == bool(reason)
    assert all(reason in dead.reason for dead in outcome.dead)
