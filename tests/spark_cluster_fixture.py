"""A Spark cluster for the tests, one for the whole run of a test process."""

from collections.abc import Iterator

import pytest

from harness.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two workers of one core each. An application has both until it ends: one at a time."""
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster
