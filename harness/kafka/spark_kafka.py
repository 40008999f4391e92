"""Spark with its own Kafka source and sink, in a separate JVM. No PySpark includes them for the
installed version, and they work only with the version of Spark that they were built for."""

from pathlib import Path
from typing import Any, Final

from harness.java.jvm import Jvm
from harness.java.maven_jars import MavenJars

VERSION: Final = "4.0.0"
JARS: Final = MavenJars(
    "Spark's Kafka source",
    f"spark-sql-kafka-{VERSION}",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
        ("org.apache.spark", "spark-sql_2.13", VERSION),
    ),
)
# Those of Spark's launcher that a local session needs.
_OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip


def spark_jvm(folder: Path) -> Jvm:
    """Returns a JVM with Spark, which keeps its files on disk in the folder."""
    assert JARS.classpath is not None, JARS.why_not
    open_options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    return Jvm(JARS.classpath, options=[*open_options, "-Xmx1g", f"-Djava.io.tmpdir={folder}"])


def spark_session(java: Jvm, folder: Path) -> Any:
    """Returns a Spark session, which must be stopped before its JVM ends."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": folder.as_uri(),
        "spark.log.level": "ERROR",
    }
    builder = java.find("org.apache.spark.sql.SparkSession").builder().master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
