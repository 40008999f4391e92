"""An Airflow DAG that loads hourly, at five past, once agents have reported the previous hour.

For Airflow 3. The worker needs `penstock[loader]`, Java, and /etc/penstock/loader.yaml. A load
continues where the last one ended, so one run is enough after a pause, and there is no catchup. If
two loads run at once, the second fails with exit code 5.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

NOTHING_TO_DO = 3

with DAG(
    dag_id="penstock_load",
    description="Loads topics into Hadoop",
    schedule="5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    BashOperator(
        task_id="load",
        bash_command="exec penstock load --config /etc/penstock/loader.yaml",
        skip_on_exit_code=NOTHING_TO_DO,
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=6),
    )
