"""Small files of complete hours, joined on request."""

import json
from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from pyarrow import dataset

from loader.config import LoaderConfig, Tasks
from loader.errors import LoaderError
from loader.run.load import load
from loader.run.load_context import Compaction, LoadRequest
from loader.run.outcomes import TableOutcome
from loader.run.spark_work import SparkWork
from loader.values.tables import Hour, hour_folder
from tests.loader.application import BEGAN, HOUR, Application
from tests.loader.loads import EITHER_WAY, LONG_AGO, Listening, folder_of, no_spark

LOAD = LoadRequest()
COMPACT = LoadRequest(compaction=Compaction(older_than=0, target_bytes=256_000_000))
RECENT = LoadRequest(compaction=Compaction(older_than=10**14, target_bytes=256_000_000))
LATER = Hour(BEGAN + HOUR)


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_files_that_came_late_are_joined(
    request: pytest.FixtureRequest, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    config = msgspec.structs.replace(config, completeness=LONG_AGO, tasks=tasks)
    topic = application.topic
    start_spark: Callable[[], SparkWork] = no_spark
    if not tasks.without_spark:
        start_spark = partial(SparkWork, request.getfixturevalue("spark"))

    def run(wanted: LoadRequest = LOAD, *, checks: bool = True) -> TableOutcome:
        hours = config.check_files_hours if checks else 0
        checking = msgspec.structs.replace(config, check_files_hours=hours)
        (outcome,) = load(checking, wanted, start_spark, Listening())
        return outcome

    (never,) = run(COMPACT).warnings
    assert never == "nothing to compact: the table was never loaded"
    for _ in range(3):
        application.write(4, time=BEGAN)
        application.write(2, time=LATER)
        assert run().error is None
    folders = [folder_of(config, topic, hour_folder(Hour(at))) for at in (BEGAN, LATER)]

    def parts() -> list[int]:
        return [len(list(folder.glob("part-*"))) for folder in folders]

    def markers() -> list[dict[str, int]]:
        contents = [json.loads((folder / "_SUCCESS").read_text()) for folder in folders]
        return [
            {key: each[key] for key in ("rows", "late_rows", "complete_since_run")}
            for each in contents
        ]

    def landed() -> list[tuple[str, int]]:
        rows = dataset.dataset(folder_of(config, topic)).to_table(["source", "seq"])
        return sorted((row["source"], row["seq"]) for row in rows.to_pylist())

    before = markers()
    assert (parts(), [marker["rows"] for marker in before]) == ([3, 3], [12, 6])
    assert run(RECENT).did_nothing
    planned = run(msgspec.structs.replace(COMPACT, dry_run=True)).compacted
    assert [(part.hour, part.files, part.new_files) for part in planned] == [
        (BEGAN, 3, 1),
        (LATER, 3, 1),
    ]
    assert parts() == [3, 3]

    (spoilt, *_) = folders[1].glob("part-*")
    content = spoilt.read_bytes()
    spoilt.write_bytes(content[:-9] + b"x" + content[-8:])
    found = run(COMPACT, checks=False)
    assert isinstance(found.error, LoaderError)
    assert found.error.exit_code == 1
    assert f"{hour_folder(LATER)}: its files are not as committed" in str(found.error)
    assert [part.hour for part in found.compacted] == [BEGAN]
    assert parts() == [1, 3]
    spoilt.write_bytes(content)
    (compacted,) = run(COMPACT).compacted
    assert (compacted.hour, compacted.files, compacted.new_files) == (LATER, 3, 1)
    assert (compacted.bytes, parts()) == (planned[1].bytes, [1, 1])

    assert markers() == before
    assert landed() == sorted(application.written)
    assert run(COMPACT).did_nothing
    checked = run(LoadRequest(check_files=()))
    assert (checked.faults, checked.error) == ([], None)
    application.write(1, time=BEGAN)
    assert run().late == 1
    assert landed() == sorted(application.written)
