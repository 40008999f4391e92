"""Apache Airflow, with the provider in deploy/airflow."""
