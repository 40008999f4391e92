"""A real HDFS for the tests: one for each test process, and a folder of its own for each test."""

import uuid
from collections.abc import Iterator

import pytest

from harness.hadoop import hadoop_classpath, why_no_hadoop
from harness.hdfs import RunningHdfs


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHdfs]:
    """Whoever kills one of its servers starts it again."""
    if hadoop_classpath() is None:
        pytest.skip(f"HDFS cannot be had: {why_no_hadoop()}")
    with RunningHdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def hdfs_root(hdfs: RunningHdfs) -> str:
    """The URI of a folder that nobody else uses, and that is not there yet."""
    return f"{hdfs.uri}/t{uuid.uuid4().hex[:12]}"
