"""Loads that fail: what the ledger hears of them, and that the others are loaded."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from loader.config import LoaderConfig
from loader.errors import GapError, LoaderError, StoreError, TooManyDead, cure_of, reason_of
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome, worst_exit_code
from loader.run.spark_work import SparkWork
from penstock.services.load.summary import EndedLoad, document, show
from tests.loader.application import BEGAN, Application, landed
from tests.loader.loads import Listening, load_once, rows_of
from tests.loader.test_checked_files import entries, said


@pytest.fixture
def other(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    """Of another topic."""
    made = Application(running_broker.bootstrap, running_registry.url, f"{new_topic}-2")
    yield made
    made.close()


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    def do_POST(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def registry_that_refuses() -> Iterator[str]:
    """Whatever it is asked; so nobody waits until it is back."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def loaded(spark: SparkSession, config: LoaderConfig) -> list[TableOutcome]:
    return load(config, LoadRequest(), lambda: SparkWork(spark), Listening())


def spoil(application: Application, count: int) -> None:
    for _ in range(count):
        application.send_bytes(b"a line that is no event")
    application.flush()


def told(config: LoaderConfig, topic: str) -> list[dict[str, Any]]:
    return [each for each in said(config, topic, "loads") if each["topic"] == topic]


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
    failed, well = loaded(spark, both)
    assert isinstance(failed.error, TooManyDead)
    assert (well.error, well.rows) == (None, 20)
    show([failed, well])
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last == [
        f"{application.topic} failed: {reason_of(failed.error)}",
        f"  what to do: {cure_of(failed.error, application.topic)}",
    ]
    tables: Any = document(EndedLoad((failed, well), 1.0))["tables"]
    assert [each["cure"] for each in tables] == [cure_of(failed.error, application.topic), None]
    assert worst_exit_code([failed, well]) == 6

    (first,) = told(config, application.topic)
    assert first["failed"]
    assert "10 of 40 records cannot be decoded" in first["reason"]
    assert "--set dead_share=1" in first["cure"]
    assert [each["failed"] for each in told(config, other.topic)] == [False]
    # The same an hour long is said once.
    assert isinstance(loaded(spark, config)[0].error, TooManyDead)
    assert told(config, application.topic) == [first]

    patient = msgspec.structs.replace(config, dead_share=1.0)
    assert (load_once(spark, patient).rows, load_once(spark, patient).did_nothing) == (30, True)
    # Each load's journal may be in another partition.
    began, *later = sorted(told(config, application.topic), key=lambda each: each["since"])
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
    assert told_or_nothing(config, application.topic) == []


def told_or_nothing(config: LoaderConfig, topic: str) -> list[dict[str, Any]]:
    return [each for each in told(config, topic) if each["failed"]]


def test_what_keeps_a_load_from_beginning_is_told_of_all_tables(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    (tmp_path / "root").write_text("no folder")
    with pytest.raises(StoreError):
        loaded(spark, config)
    (each,) = told(config, application.topic)
    assert (each["failed"], "cannot" in each["reason"]) == (True, True)


def test_a_load_that_could_not_begin_is_over_with_the_next(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """It could leave nothing at the root that says so."""
    application.write(30, time=BEGAN)
    (tmp_path / "root").write_text("no folder")
    with pytest.raises(StoreError):
        loaded(spark, config)
    (tmp_path / "root").unlink()
    assert load_once(spark, config).rows == 30
    assert sorted(each["failed"] for each in told(config, application.topic)) == [False, True]


def test_a_failure_is_over_at_a_root_that_was_moved(
    spark: SparkSession, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    """The ledger has the table's first root. A load that could not begin knows the root's new name
    alone, and said that it fails there."""
    application.write(10, time=BEGAN)
    assert load_once(spark, config).rows == 10
    moved = msgspec.structs.replace(config, root=f"file://{tmp_path}/moved")
    (tmp_path / "moved").write_text("no folder")
    application.write(20, time=BEGAN)
    with pytest.raises(StoreError):
        loaded(spark, moved)
    (tmp_path / "moved").unlink()
    (tmp_path / "root").rename(tmp_path / "moved")
    assert load_once(spark, moved).rows == 20

    assert last_said(config, application.topic) == {config.root: False, moved.root: False}


def last_said(config: LoaderConfig, topic: str) -> dict[str, bool]:
    """By destination, whether loads fail there."""
    found = [
        (entry["header"]["time"], entry["destination"], each["failed"])
        for entry in entries(config, topic)
        for each in entry["loads"]
        if each["topic"] == topic
    ]
    return {destination: failed for _, destination, failed in sorted(found)}


def test_a_failure_is_over_though_nobody_remembers_it(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """The ledger was told, and the file beside the commit log was not written."""
    application.write(30, time=BEGAN)
    spoil(application, 10)
    assert isinstance(loaded(spark, config)[0].error, TooManyDead)
    shutil.rmtree(Path(config.root.removeprefix("file://")) / "_penstock/~loads")
    patient = msgspec.structs.replace(config, dead_share=1.0)
    assert load_once(spark, patient).rows == 30
    assert sorted(each["failed"] for each in told(config, application.topic)) == [False, True]


def test_a_ledger_that_takes_nothing_is_a_warning(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    """Rows are loaded, and what could not be said is said by a later load."""
    spoil(application, 10)
    with registry_that_refuses() as url:
        (outcome,) = loaded(spark, msgspec.structs.replace(config, registry=url))
    assert outcome.error is not None
    assert any("the ledger was not told" in each for each in outcome.warnings)
    state = Path(config.root.removeprefix("file://")) / "_penstock/~loads"
    assert not state.exists()
    (outcome,) = loaded(spark, config)
    assert isinstance(outcome.error, TooManyDead)
    known = json.loads((state / f"{application.topic}.json").read_bytes())
    assert known["reason"] == reason_of(outcome.error)


def test_every_error_has_a_cure() -> None:
    assert "--accept-gap --topics clicks" in cure_of(GapError("x"), "clicks")
    for error in (LoaderError("x"), StoreError("x"), TooManyDead("x"), ValueError("x")):
        assert cure_of(error, "clicks")
    assert reason_of(ValueError("two\nlines")) == "two lines"
    assert reason_of(ValueError()) == "ValueError"
