"""What the driver lands itself is what tasks would have, in the same places; and what is too large
for it is left to them."""

import random
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from client.connection.brokers import Brokers
from loader.commit.sources import LandedSources
from loader.commit.staging import staged
from loader.config import LoaderConfig, Tasks
from loader.landing.pieces import FileKind
from loader.landing.task_spec import landing_job
from loader.landing.without_spark import AS_RECORDS, is_little, is_local, land_locally, rows_in_file
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.store.local import LocalStore
from tests.loader.application import BEGAN, HOUR, Application, event_schema, landed
from tests.loader.landing.decoded_batches import START, a_slice, a_spec
from tests.loader.loads import Listening, folder_of, load_once, no_spark, rows_of


def test_a_partition_is_read_as_by_tasks(
    config: LoaderConfig, brokers: Brokers, application: Application, tmp_path: Path
) -> None:
    application.write(12, time=START, step=HOUR // 10)
    application.write(18, time=START + 12 * HOUR // 10, step=HOUR // 10)
    application.send_bytes(b"nothing that is framed", time=START)
    application.flush()
    spec = a_spec(brokers=config.brokers, reader_schema=event_schema(), registry=config.registry)
    of = {"topic": application.topic, "partition": 0}
    pieces = [a_slice(0, 12, number=0, **of), a_slice(12, 31, number=1, **of)]
    store = LocalStore(f"file://{tmp_path}/root")
    told: list[int] = []
    land_locally(store, landing_job(spec, [pieces], {}), "staging/it", brokers, told.append)
    assert told == [1, 2]
    left = staged(store, "staging/it", LandedSources())
    assert {number: report.row_count for number, report in left.reports.items()} == {0: 12, 1: 18}
    assert all(is_local(file.path) for file in left.files)
    rows = {(f.kind, f.slice, f.hour): rows_in_file(store, f.path) for f in left.files}
    assert rows == {
        **{(FileKind.ROWS, 0, START + HOUR * n): count for n, count in enumerate((10, 2))},
        **{(FileKind.ROWS, 1, START + HOUR * n): count for n, count in ((1, 8), (2, 10))},
        (FileKind.DEAD, 1, None): 1,
    }
    first = next(file.path for file in left.files if file.kind is FileKind.ROWS)
    assert pq.read_table(tmp_path / "root" / first).column("_offset").to_pylist() == [*range(10)]


def test_what_is_little() -> None:
    pieces = [a_slice(0, 500, number=number) for number in range(2)]
    job = landing_job(a_spec(), [pieces], {})
    assert is_little(job, 2 * (500 + AS_RECORDS))
    assert not is_little(job, 2 * (500 + AS_RECORDS) - 1)
    assert not is_little(job, 0)


def test_a_small_load_asks_for_no_spark(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    application.write(1_000, time=BEGAN)
    (outcome,) = load(config, LoadRequest(), no_spark, Listening())
    assert (outcome.rows, outcome.error) == (1_000, None)
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    application.write(1_000, time=BEGAN)
    by_spark = msgspec.structs.replace(config, tasks=Tasks(without_spark=0))
    (outcome,) = load(by_spark, LoadRequest(), no_spark, Listening())
    assert str(outcome.error) == "nobody may need it"


@pytest.mark.slow
def test_few_records_that_are_large_are_left_to_spark(
    spark: SparkSession, application: Application, config: LoaderConfig
) -> None:
    chance = random.Random(7)
    for number in range(40):
        large = {**application.view(number), "url": chance.randbytes(400_000).hex()}
        application.write(1, time=BEGAN + number, fields=large)
    outcome = load_once(spark, config)
    assert outcome.rows == 40
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    assert not any(folder_of(config, "_penstock", application.topic, "staging").iterdir())
