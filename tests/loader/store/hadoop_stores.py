"""A store on a real HDFS, through the JVM of the tests' Spark session."""

from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from loader.store.hadoop import HadoopStore


def hadoop_store(spark: SparkSession, hdfs: RunningHdfs, root: str) -> HadoopStore:
    """Each has a FileSystem of its own: nothing is remembered from others."""
    context = spark.sparkContext
    gateway = context._gateway
    assert gateway is not None
    configuration = gateway.jvm.org.apache.hadoop.conf.Configuration(
        context._jsc.hadoopConfiguration()
    )
    for key, value in hdfs.configuration.items():
        configuration.set(key, value)
    return HadoopStore(root, gateway, configuration)
