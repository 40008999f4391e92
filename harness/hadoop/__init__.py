"""HDFS and Spark, as processes."""
