"""A store on a real HDFS or S3, through the JVM of the tests' Spark session."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from loader.store.hadoop import MOST_TOGETHER, HadoopStore


def hadoop_store(
    spark: SparkSession,
    settings: Mapping[str, str],
    root: str,
    *,
    most_together: int = MOST_TOGETHER,
) -> HadoopStore:
    """`settings` are those of Hadoop's client, besides the session's."""
    context = spark.sparkContext
    gateway = context._gateway
    assert gateway is not None
    configuration = gateway.jvm.org.apache.hadoop.conf.Configuration(
        context._jsc.hadoopConfiguration()
    )
    for key, value in settings.items():
        configuration.set(key, value)
    return HadoopStore(root, gateway, configuration, most_together=most_together)
