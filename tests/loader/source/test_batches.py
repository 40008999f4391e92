"""`spark.read.format("penstock")`, as a user has it. What tasks read is in test_reading.py."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.apache_kafka import ApacheKafka
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.spark_jvm import quick_java
from tests.loader.application import BEGAN, VIEW, Application, event_schema, landed
from tests.loader.source.conftest import NewApplication

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = [
    *("user", "url", "status", "millis"),
    *("time", "host", "app", "source", "seq", "position"),
    *("_topic", "_partition", "_offset"),
]


def test_a_typed_topic_whose_schema_grew(new_application: NewApplication, reading: Any) -> None:
    application = new_application(partitions=2)
    application.write(300)
    with_referrer = [*VIEW, {"name": "referrer", "type": ["null", "string"], "default": None}]
    application.change(event_schema(with_referrer))
    application.write(200, partition=1, fields={**application.view(3), "referrer": "mail"})
    frame = reading().option("topic", application.topic).load()
    assert frame.columns == [*COLUMNS[:4], "referrer", *COLUMNS[4:]]
    rows = frame.collect()
    assert landed(rows) == sorted(application.written)
    assert {(row["_partition"], row["referrer"]) for row in rows} == {(0, None), (1, "mail")}
    first = min(rows, key=lambda row: (row["_partition"], row["_offset"]))
    assert first["time"].timestamp() * 1000 == BEGAN
    assert (first["user"], first["status"], first["_topic"]) == ("u0", 200, application.topic)

    kept = reading().option("topic", application.topic).option("dead", "keep").load()
    assert kept.where("_dead is null and referrer is null").count() == 300

    nested = reading().option("topic", application.topic).option("header", "nested").load()
    assert nested.where("header.seq >= 299 and status = 200").count() == 1
    # Only the columns that a user asks for come from the tasks.
    few = reading().option("topic", application.topic).schema("_offset long, user string").load()
    assert few.columns == ["_offset", "user"]
    assert few.where("_offset = 7").collect()[0]["user"] == "u0"


def test_conditions_that_spark_pushes_down(
    new_application: NewApplication, reading: Any, spark: SparkSession
) -> None:
    application = new_application(partitions=3)
    for partition in range(3):
        application.write(20, partition=partition)
    frame = reading().option("topic", application.topic).option("filterPushdown", "true")
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        found = frame.load().where("_partition in (1, 2) and _offset >= 15 and status = 200")
        assert found.rdd.getNumPartitions() == 1  # two partitions, in one small task
        rows = sorted((row["_partition"], row["_offset"]) for row in found.collect())
        assert rows == [(partition, offset) for partition in (1, 2) for offset in range(15, 20)]
        assert frame.load().where("_offset > 100").collect() == []
    finally:
        spark.conf.unset(setting)
    with pytest.raises(PySparkException, match=setting):
        frame.load().collect()


def test_what_is_wrong_is_said(application: Application, reading: Any) -> None:
    topic = {"topic": application.topic}
    with pytest.raises(PySparkException, match="did you mean `startingOffsets`"):
        reading().options(**topic, startOffset="5").load()
    with pytest.raises(PySparkException, match=r"`maxRecordsPerTrigger` is for spark\.readStream"):
        reading().options(**topic, maxRecordsPerTrigger="5").load().collect()
    with pytest.raises(PySparkException, match="has a column usr, and there is none: there are"):
        reading().options(**topic).schema("usr string").load().collect()
    with pytest.raises(PySparkException, match="column user is string, and not bigint"):
        reading().options(**topic).schema("user long").load().collect()


def test_many_partitions_and_empty_ones(new_application: NewApplication, reading: Any) -> None:
    application = new_application(partitions=200)
    frame = reading().option("topic", application.topic).load()
    assert frame.count() == 0
    for partition in range(0, 200, 2):
        application.write(2, partition=partition)
    frame = reading().option("topic", application.topic).load()
    assert landed(frame.collect()) == sorted(application.written)


def test_apache_kafka(
    running_kafka: ApacheKafka,
    running_registry: RegistryProcess,
    new_topic: str,
    spark: SparkSession,
) -> None:
    application = Application(
        running_kafka.bootstrap, running_registry.url, new_topic, partitions=2
    )
    application.write(50)
    application.write(30, partition=1)
    frame = (
        spark.read.format("penstock")
        .option("brokers", running_kafka.bootstrap)
        .option("registry", running_registry.url)
        .option("topic", new_topic)
        .option("tasksPerPartition", "3")
        .load()
    )
    application.close()
    assert landed(frame.collect()) == sorted(application.written)


FRESH = """
import sys
from pyspark.sql import SparkSession

brokers, registry, topic = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
frame = spark.read.format("penstock").option("brokers", brokers).option("registry", registry)
print("rows:", frame.option("topic", topic).load().count())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_it_is_found_without_registration(
    application: Application,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path: Path,
) -> None:
    """By a program that imports nothing of Penstock: it is only installed."""
    application.write(5)
    (tmp_path / "fresh.py").write_text(FRESH)
    ended = subprocess.run(
        [
            sys.executable,
            "fresh.py",
            running_broker.bootstrap,
            running_registry.url,
            application.topic,
        ],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert ended.stdout.strip() == "rows: 5", ended.stderr[-3000:]


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_DIRS": str(folder),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={folder} {quick_java()}",
    }
