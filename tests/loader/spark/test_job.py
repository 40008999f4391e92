"""Why a job failed, in one line: what our own code raised in a task, or Spark's words."""

import pytest
from py4j.protocol import Py4JNetworkError

from client.errors import OffsetsMissing
from loader.errors import DamagedBatch, GapError, LoaderError, SparkFailed, TooManyHours
from loader.spark.job import environment_failure, failure, working


def spark_says(raised: str) -> str:
    return (
        "An error occurred while calling o1.text.\n: org.apache.spark.SparkException: Job aborted\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n    process()\n'
        f"{raised}\n\n\tat org.apache.spark.api.python\n"
    )


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [(OffsetsMissing, GapError, 4), (TooManyHours, TooManyHours, 6), (KeyError, SparkFailed, 7)],
)
def test_what_a_task_raised(raised: type[Exception], kind: type[LoaderError], code: int) -> None:
    error = failure("t: landing", spark_says(f"{raised.__module__}.{raised.__name__}: t-0 is odd"))
    assert (type(error), error.exit_code) == (kind, code)
    assert str(error).endswith("t-0 is odd")


def test_a_damaged_batch_is_named() -> None:
    in_a_task = DamagedBatch("clicks-2", 7, 10, 15, "the CRC does not match")
    error = failure("t: landing", spark_says(f"loader.errors.DamagedBatch: {in_a_task}"))
    assert isinstance(error, DamagedBatch)
    assert (error.topic, error.partition, error.first, error.end) == ("clicks-2", 7, 10, 15)
    assert (error.reason, error.exit_code) == ("the CRC does not match", 7)
    said = "clicks-2-7, offsets 10 to 14: the CRC does not match"
    assert str(error) == said
    odd = failure("t: landing", spark_says("loader.errors.DamagedBatch: of another version"))
    assert (type(odd), str(odd)) == (SparkFailed, "t: landing: of another version")


def test_what_spark_itself_says() -> None:
    error = failure("t: landing", "An error occurred while calling o1.\n: java.io.IOException: no")
    assert str(error) == "t: landing: java.io.IOException: no"


@pytest.mark.parametrize("raised", [Py4JNetworkError("no answer"), ConnectionRefusedError("no")])
def test_a_jvm_that_has_ended(raised: Exception) -> None:
    """As one that the kernel kills: test_killed_on_clusters.py does."""
    with (
        pytest.raises(SparkFailed, match="t: landing: Spark's JVM has ended"),
        working("t: landing"),
    ):
        raise raised


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "  File …\nImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not "
            "found (required by penstock-environment/cramjam/cramjam.so)\n\tat org.apache…",
            "executors cannot load what this driver packed (/lib/x86_64-linux-gnu/libc.so.6: "
            "version `GLIBC_2.38' not found (required by penstock-environment/cramjam/cramjam.so)"
            "): pack on a host with their processor and a C library no newer than theirs",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow "
            ">= 18.0.0 must be installed; however, it was not found.",
            "executors have no Python module `PyArrow`: --pack-env ships what the extra `loader` "
            "requires, anything else must be installed for their interpreter",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.UnsupportedOperationException: getSubject is not supported\n\tat java…",
            "the Hadoop client of PySpark 4.1 does not run on Java 24 or later: use Java 17 or 21, "
            "or PySpark 4.2 or later",
        ),
        (
            "An error occurred while calling o66.collectToPython.\n: org.apache.spark."
            "SparkException: Python worker exited unexpectedly (crashed). Consider setting "
            "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or…\n\tat org.apache.spark."
            "sql.execution.python.PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:165)",
            "the Python that executors run (spark.pyspark.python) cannot plan on this host: run "
            "with --pack-env, or install Penstock with the extra `loader` for it here too",
        ),
    ],
)
def test_one_line_says_what_to_do(said: str, told: str) -> None:
    assert str(environment_failure(RuntimeError(said))) == told


def test_other_failures_are_none_of_ours() -> None:
    for said in (
        "Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space",
        "Python worker exited unexpectedly (crashed)\n\tat org.apache.spark.api.PythonRunner.read",
    ):
        assert environment_failure(RuntimeError(said)) is None
