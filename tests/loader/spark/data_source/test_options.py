"""What a user says is understood, or refused in one line that names it."""

import re
from pathlib import Path

import pytest

from loader.config import HeaderColumns
from loader.errors import OptionRefused
from loader.spark.data_source.options import (
    OPTIONS,
    AtOffsets,
    AtTime,
    DeadRecords,
    Earliest,
    Latest,
    Position,
    SourceOptions,
    millis,
    position,
    read_options,
)
from schemas.remote.address import RegistryAddress

PAGE = Path(__file__).resolve().parents[4] / "docs" / "spark.md"


def options(**given: str) -> SourceOptions:
    return read_options({"topic": "orders", **given})


def test_little_must_be_said() -> None:
    said = options()
    assert said.topics == ("orders",)
    assert (said.starting, said.ending, said.pattern, said.subject) == (None,) * 4
    assert (said.header, said.dead) == (HeaderColumns.FLAT, DeadRecords.FAIL)
    assert said.fail_on_data_loss
    assert (said.records_per_task, said.tasks_per_partition) == (1_000_000, 1)
    assert (said.bytes_per_task, said.records_per_trigger) == (None, None)
    assert not said.filter_pushdown
    with pytest.raises(OptionRefused, match="pass either option `topic` or option `topicPattern`"):
        read_options({})


def test_names_in_any_case_and_all_of_them() -> None:
    said = read_options(
        {
            "TOPIC": " a , b,a",
            "brokers": "one:9092,two",
            "registry": "http://r:8081",
            "schemasubject": "views",
            "startingoffsets": "Latest",
            "endingOffsets": '{"a": {"0": -1}}',
            "HEADER": "Nested",
            "dead": "keep",
            "failOnDataLoss": "FALSE",
            "maxRecordsPerTask": "7",
            "maxBytesPerTask": "8",
            "tasksPerPartition": "9",
            "maxRecordsPerTrigger": "10",
            "filterPushdown": "true",
        }
    )
    assert said.topics == ("a", "b")
    assert [str(each) for each in said.bootstrap.addresses] == ["one:9092", "two:9092"]
    assert (said.registry, said.subject) == (RegistryAddress("http://r:8081"), "views")
    assert (said.starting, said.ending) == (Latest(), AtOffsets({"a": {0: -1}}))
    assert (said.header, said.dead) == (HeaderColumns.NESTED, DeadRecords.KEEP)
    assert not said.fail_on_data_loss
    assert (said.records_per_task, said.bytes_per_task, said.tasks_per_partition) == (7, 8, 9)
    assert (said.records_per_trigger, said.filter_pushdown) == (10, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "a"}, "unknown option 'topics' (did you mean `topic`?)"),
        ({"startingOffset": "5"}, "did you mean `startingOffsets`?"),
        ({"kafka.bootstrap.servers": "a"}, "'kafka.bootstrap.servers': options are brokers, "),
        ({"topicPattern": "a*"}, "pass either option `topic` or option `topicPattern`"),
        ({"topic": "a,,b"}, "option `topic`, 'a,,b': must not be empty"),
        ({"topic": "app.*"}, "patterns require option `topicPattern`"),
        ({"brokers": "a:b:c"}, "option `brokers`, 'a:b:c': bootstrap"),
        ({"registry": "r"}, "option `registry`, 'r': registry 'r': the URL must begin"),
        ({"startingOffsets": "soon"}, "must be earliest, latest, or offsets such as"),
        ({"startingOffsets": '{"a": 5}'}, "must be earliest, latest, or offsets such as"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "a: invalid partition 0 or offset -3"),
        ({"startingTimestamp": "yesterday"}, "must be milliseconds since 1970, or a time such as"),
        (
            {"endingTimestamp": "0", "endingOffsets": "latest"},
            "pass option `endingOffsets` or `endingTimestamp`, not both",
        ),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "is later than `endingTimestamp`"),
        ({"startingOffsets": "latest", "endingOffsets": "earliest"}, "cannot start at the latest"),
        (
            {"startingOffsets": '{"a": {"0": 9}}', "endingOffsets": '{"a": {"0": 8}}'},
            "a-0: 9 in option `startingOffsets` is after 8 in `endingOffsets`",
        ),
        ({"dead": "bury"}, "option `dead`, 'bury': must be one of fail, skip, keep"),
        ({"header": "none"}, "must be one of flat, nested"),
        ({"failOnDataLoss": "no"}, "must be true or false"),
        ({"maxRecordsPerTask": "0"}, "must be a whole number, at least 1"),
        ({"maxRecordsPerTrigger": "many"}, "must be a whole number, at least 1"),
    ],
)
def test_what_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        options(**given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_only_streams_have_and_what_only_batches() -> None:
    options().for_batches()
    options().for_streams()
    with pytest.raises(OptionRefused, match=r"`maxRecordsPerTrigger` is for spark\.readStream"):
        options(maxRecordsPerTrigger="5").for_batches()
    with pytest.raises(OptionRefused, match=r"`endingTimestamp` is for spark\.read only"):
        options(endingTimestamp="5").for_streams()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Earliest()),
        (" LATEST ", Latest()),
        (
            '{"a": {"0": 5, "11": -2}, "b": {"1": -1}}',
            AtOffsets({"a": {0: 5, 11: -2}, "b": {1: -1}}),
        ),
    ],
)
def test_positions(text: str, expected: Position) -> None:
    assert position(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 1763622000000 ", 1_763_622_000_000),
        ("-5", -5),
        ("2025-11-20T07:00:00Z", 1_763_622_000_000),
        ("2025-11-20T08:00:00.250+01:00", 1_763_622_000_250),
        ("2025-11-20 07:00", 1_763_622_000_000),
        ("2025-11-20", 1_763_596_800_000),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert options(startingTimestamp=text).starting == AtTime(millis(text)) == AtTime(expected)


def test_the_page_has_a_line_for_every_option() -> None:
    rows = re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(name for name in rows if name in OPTIONS) == sorted(OPTIONS)
    assert len(set(rows)) == len(rows)
