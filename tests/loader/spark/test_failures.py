"""What executors can say that a test cannot make them say; the rest is in test_bare_executors."""

import pytest

from loader.spark.job import environment_failure


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
            "executors have no Python module `PyArrow`: --pack-env ships what `penstock[loader]` "
            "requires, anything else must be installed for their interpreter",
        ),
        (
            "An error occurred while calling o66.collectToPython.\n: org.apache.spark."
            "SparkException: Python worker exited unexpectedly (crashed). Consider setting "
            "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or…\n\tat org.apache.spark."
            "sql.execution.python.PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:165)",
            "the Python that executors run (spark.pyspark.python) cannot plan on this host: run "
            "with --pack-env, or install `penstock[loader]` for it here too",
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
