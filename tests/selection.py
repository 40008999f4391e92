"""`--quick`: only tests that need no server and no JVM, and neither are slow nor grow when
they are to: `make quick`.

Which these are is found in their code, not in a list: see reaching.py. A test whose code, or that
of a fixture it asks for, comes by something that starts a server or a JVM, is left out.
"""

from typing import Final

import pytest

from tests.reaching import deselect, reaches

# Whoever starts a server, a program that runs on, or a JVM, does it with one of these.
STARTERS: Final = {
    "subprocess.Popen",
    "tests.server_process.ServerProcess",
    "tests.apache_kafka.kafka_classpath",
    "tests.hadoop.hadoop_classpath",
    "cluster.zookeeper.EmbeddedZooKeeper",
    "cluster.jars.find_java",
    "cluster.jars.find_class_path",
    "pyspark.sql.session.SparkSession",
    "pyspark.core.context.SparkContext",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="only tests that need no server and no JVM"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        deselect(config, items, lambda item: not is_quick(item))


def is_quick(item: pytest.Item) -> bool:
    long = any(item.get_closest_marker(each) for each in ("slow", "fuzz"))
    return not (long or reaches(item, STARTERS))
