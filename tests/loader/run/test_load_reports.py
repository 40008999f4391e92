"""When it is said that loads fail, what the ledger hears of it, and what other tables do."""

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import LoaderConfig
from loader.errors import (
    FilesDiffer,
    GapError,
    LoaderError,
    StoreError,
    TooManyDead,
    cure_of,
    load_command,
    reason_of,
)
from loader.ledger.entries import MOST_BYTES
from loader.ledger.observations import divided
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.load_reports import (
    AGAIN_MILLIS,
    LONGEST,
    Failing,
    failing,
    from_bytes,
    recovered,
    state_path,
    statements,
    weight,
)
from loader.run.outcomes import worst_exit_code
from loader.run.spark_work import SparkWork
from penstock.services.load.summary import EndedLoad, document, show
from tests.loader.answering_audit import answering_audit
from tests.loader.application import BEGAN, Application, landed
from tests.loader.loads import Listening, folder_of, ledger_entries, load_once, outcome_of, rows_of

FAILED_AT = 1_795_132_800_000


def test_the_first_failure_is_said_with_when_its_load_began() -> None:
    known, is_news = failing(None, "why", FAILED_AT - 5, FAILED_AT)
    assert is_news
    assert known == Failing(since=FAILED_AT - 5, told=FAILED_AT, reason="why")
    assert from_bytes(msgspec.json.encode(known)) == known
    said = {"topic": "t", "failed": True, "since": FAILED_AT - 5, "reason": "why", "cure": "do it"}
    assert list(statements(["t"], known, "do it")) == [said]
    over = {"failed": False, "since": FAILED_AT}
    both = [{"topic": "a", **over, "cure": "how"}, {"topic": "b", **over, "cure": ""}]
    assert recovered({"b": "", "a": "how"}, FAILED_AT) == both


@pytest.mark.parametrize(
    ("reason", "later", "is_news"),
    [
        ("why", 60_000, False),
        ("why", AGAIN_MILLIS - 1, False),
        ("why", AGAIN_MILLIS, True),
        ("another", 1, True),
        ("why", -60_000, True),  # a clock that was set back holds nothing up
    ],
)
def test_it_is_said_again(reason: str, later: int, is_news: bool) -> None:
    before = Failing(since=FAILED_AT - 9, told=FAILED_AT, reason="why")
    known, news = failing(before, reason, FAILED_AT + later, FAILED_AT + later)
    assert (known.since, news) == (FAILED_AT - 9, is_news)
    assert known.told == (FAILED_AT + later if is_news else FAILED_AT)


def test_a_long_reason_is_the_same_each_time() -> None:
    known, _ = failing(None, "x" * 2 * LONGEST, FAILED_AT, FAILED_AT)
    assert failing(known, "x" * 2 * LONGEST, FAILED_AT, FAILED_AT) == (known, False)


def test_what_is_no_state_is_a_beginning() -> None:
    assert from_bytes(b"{}") is None
    assert from_bytes(b'{"version": 2, "since": 1, "told": 1, "reason": ""}') is None
    assert state_path("clicks") == "_penstock/~loads/clicks.json"


def test_reasons_of_many_topics_are_several_entries() -> None:
    known, _ = failing(None, "é" * LONGEST, FAILED_AT, FAILED_AT)
    said = statements([f"t{number}" for number in range(500)], known, "do it")
    parts = list(divided(said, weight))
    assert [each for part in parts for each in part] == said
    assert len(parts) == 8
    assert all(len(msgspec.json.encode(part)) < 1.1 * MOST_BYTES for part in parts)


@pytest.fixture
def other(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    """Of another topic."""
    made = Application(running_broker.bootstrap, running_registry.url, f"{new_topic}-2")
    yield made
    made.close()


def spoil(application: Application, count: int) -> None:
    for _ in range(count):
        application.send_bytes(b"a line that is no event")
    application.flush()


def told(config: LoaderConfig, topic: str) -> list[dict[str, Any]]:
    """Of loads of this topic; each load's journal may be in another partition."""
    found = [each for entry in ledger_entries(config, topic) for each in entry["loads"]]
    return sorted((each for each in found if each["topic"] == topic), key=itemgetter("since"))


def test_a_table_that_fails_is_told_of_until_it_is_loaded(
    spark: SparkSession,
    application: Application,
    config: LoaderConfig,
    other: Application,
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = msgspec.structs.replace(config, topics=(application.topic, other.topic))
    application.write(30, time=BEGAN)
    spoil(application, 10)
    other.write(20, time=BEGAN)
    options = ("--config", "/a b.yaml")  # which the cure names, to be run as printed
    request = LoadRequest(config_options=options)
    failed, well = load(both, request, lambda: SparkWork(spark), Listening())
    assert isinstance(failed.error, TooManyDead)
    cure = cure_of(failed.error, application.topic, options)
    assert (well.error, well.rows) == (None, 20)
    show([failed, well])
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last == [
        f"{application.topic} failed: {reason_of(failed.error)}",
        f"  what to do: {cure}",
    ]
    tables: Any = document(EndedLoad((failed, well), 1.0), both)["tables"]
    assert [each["cure"] for each in tables] == [cure, None]
    assert worst_exit_code([failed, well]) == 6

    (first,) = told(config, application.topic)
    assert first["failed"]
    assert "10 of 40 records cannot be decoded" in first["reason"]
    assert "--set dead_share=1" in first["cure"]
    (success,) = told(config, other.topic)
    reload = f"`{load_command(other.topic, options)}`"
    assert (success["failed"], success["cure"]) == (False, reload)
    # The same an hour long is said once.
    assert isinstance(outcome_of(spark, config).error, TooManyDead)
    assert told(config, application.topic) == [first]

    patient = msgspec.structs.replace(config, dead_share=1.0)
    assert (load_once(spark, patient).rows, load_once(spark, patient).did_nothing) == (30, True)
    began, *later = told(config, application.topic)
    assert (began, [each["failed"] for each in later]) == (first, [False, False])


def test_one_line_of_anybodys_holds_no_quiet_table(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    spoil(application, 1)
    first = load_once(spark, config)
    assert (first.rows, first.dead) == (0, 1)
    assert any("1 of 1 records cannot be decoded" in each for each in first.warnings)
    application.write(3, time=BEGAN)
    assert load_once(spark, config).rows == 3
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert not any(each["failed"] for each in told(config, application.topic))


def test_what_keeps_a_load_from_beginning_is_told_until_one_does(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """It could leave nothing at the root that says so. The ledger has the table's first root; a
    load that could not begin where that was moved to knows the new name alone."""
    application.write(10, time=BEGAN)
    (tmp_path / "root").write_text("no folder")
    with pytest.raises(StoreError):
        outcome_of(spark, config)
    (each,) = told(config, application.topic)
    assert (each["failed"], "cannot" in each["reason"]) == (True, True)
    (health,) = (each for entry in ledger_entries(config, config.root) for each in entry["health"])
    assert health["name"] == config.root, "it is at work"
    (tmp_path / "root").unlink()
    assert load_once(spark, config).rows == 10
    assert [each["failed"] for each in told(config, application.topic)] == [True, False]

    moved = msgspec.structs.replace(config, root=f"file://{tmp_path}/moved")
    (tmp_path / "moved").write_text("no folder")
    application.write(20, time=BEGAN)
    with pytest.raises(StoreError):
        outcome_of(spark, moved)
    (tmp_path / "moved").unlink()
    (tmp_path / "root").rename(tmp_path / "moved")
    assert load_once(spark, moved).rows == 20
    entries = ledger_entries(config, application.topic)
    last = {  # by destination, whether loads fail there
        entry["destination"]: entry["loads"][-1]["failed"]
        for entry in sorted(entries, key=lambda entry: entry["header"]["time"])
        if entry["loads"]
    }
    assert last == {config.root: False, moved.root: False}


def test_a_ledger_that_takes_nothing_is_a_warning(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """Rows are loaded, and what could not be said is said by a later load."""
    spoil(application, 10)
    with answering_audit() as refusing:  # so nobody waits until it is back
        refusing.said.status, refusing.said.hang_up = 403, True
        outcome = outcome_of(spark, msgspec.structs.replace(config, registry=refusing.url))
    assert outcome.error is not None
    assert any("cannot report in the ledger" in each for each in outcome.warnings)
    state = folder_of(config, "_penstock/~loads") / f"{application.topic}.json"
    began = json.loads(state.read_bytes())["since"]
    outcome = outcome_of(spark, config)
    assert isinstance(outcome.error, TooManyDead)
    known = json.loads(state.read_bytes())
    assert (known["since"], known["reason"]) == (began, reason_of(outcome.error))
    assert known["told"] > 0


def test_every_error_has_a_cure() -> None:
    assert "--topics clicks --accept-gap" in cure_of(GapError("x"), "clicks")
    gone = FilesDiffer("gone", rebuild=["dt=H"])
    assert "'/a b.yaml' --topics t --rebuild dt=H`" in cure_of(gone, "t", ("--config", "/a b.yaml"))
    for error in (LoaderError("x"), StoreError("x"), TooManyDead("x"), ValueError("x")):
        assert cure_of(error, "clicks")
    assert reason_of(ValueError("two\nlines")) == "two lines"
    assert reason_of(ValueError()) == "ValueError"
