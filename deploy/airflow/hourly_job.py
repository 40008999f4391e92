"""An Airflow DAG whose job reads an hour of a topic once the audit says that every line is there.

For Airflow 3.3 with `airflow-providers-penstock` and a connection `penstock_default` to the audit.
The sensor waits in Airflow's triggerer and occupies no worker. The load has a DAG of its own
(penstock_load.py): in the same one, an hour that waits for the next load would keep it from
running.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow_providers_penstock.sensor import PenstockHourSensor

with DAG(
    dag_id="page_views_hourly",
    description="Reads each hour of page_views once it is complete",
    schedule="15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=24,  # hours that wait do not hold up the next ones
    tags=["penstock"],
):
    complete = PenstockHourSensor(
        task_id="page_views_complete",
        topic="page_views",
        timeout=timedelta(hours=12),
    )
    job = BashOperator(
        task_id="job",
        bash_command="echo yours: it reads"
        " dt={{ (data_interval_end - macros.timedelta(hours=1)).strftime('%Y-%m-%d/hour=%H') }}",
    )
    complete >> job
