"""An Airflow DAG that loads hourly, at five past, once agents have reported the previous hour.

For Airflow 3. A worker needs /opt/penstock, Java 17 or later, /etc/penstock/loader.yaml and, for
HDFS, Hadoop's configuration. The command gets the worker's environment with `env` added to it; no
profile is read. docs/how-to/load-into-hdfs.md says what each variable is for. A load continues
where the last one ended, so one run is enough after a pause, and there is no catchup. If two loads
run at once, the second fails with exit code 5, and is tried again. Exit codes that need a person
are not: 4 (a gap), 6 (too many dead letters or duplicates) and 8 (damaged files).
"""

from datetime import UTC, datetime, timedelta

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

NOTHING_TO_DO = 3
NEED_A_PERSON = (4, 6, 8)


class Load(BashOperator):
    """Runs a load, which is retried only if that can help."""

    def execute(self, context):
        try:
            return super().execute(context)
        except AirflowException as error:
            process = self.subprocess_hook.sub_process
            if process is not None and process.returncode in NEED_A_PERSON:
                raise AirflowFailException(str(error)) from error
            raise


with DAG(
    dag_id="penstock_load",
    description="Loads topics into Hadoop",
    schedule="5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    Load(
        task_id="load",
        bash_command="exec /opt/penstock/bin/penstock load --config /etc/penstock/loader.yaml",
        env={"HADOOP_CONF_DIR": "/etc/hadoop/conf"},  # and JAVA_HOME, if java is not on the PATH
        append_env=True,
        skip_on_exit_code=NOTHING_TO_DO,
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=6),
    )
