"""An Airflow DAG that loads hourly, at five past, once agents have reported the previous hour.

For Airflow 3.3 with `airflow-providers-penstock`. A worker needs /opt/penstock, Java 17 or later,
/etc/penstock/loader.yaml and, for HDFS, Hadoop's configuration; docs/how-to/airflow.md has all of
it. A load continues where the last one ended, so one run is enough after a pause, and there is no
catchup. A job that reads the hours has a DAG of its own, which begins with a sensor: hourly_job.py.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow_providers_penstock.operator import PenstockLoadOperator

with DAG(
    dag_id="penstock_load",
    description="Loads topics into Hadoop",
    schedule="5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    PenstockLoadOperator(
        task_id="load",
        executable="/opt/penstock/bin/penstock",
        config="/etc/penstock/loader.yaml",
        env={"HADOOP_CONF_DIR": "/etc/hadoop/conf"},  # and JAVA_HOME, if java is not on the PATH
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=6),
    )
