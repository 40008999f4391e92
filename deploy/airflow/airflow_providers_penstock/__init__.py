"""Airflow's provider for Penstock: an operator that loads, a sensor that waits for complete hours.

    address          the audit's address and credentials, from a connection of Airflow's
    hour_verdicts    what the audit's answers mean for a job that waits
    audit            asks the audit
    hook             the connection type `penstock`
    sensor, trigger  wait for an hour
    load_process     a load as a child process, which never outlives its task
    load_outcomes    what a load's exit code and report mean for its task
    operator         runs a load
    lineage          OpenLineage's datasets

Works without Penstock's own packages, which need not be installed in Airflow's environment.
"""

from typing import Any

__version__ = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """Describes the provider to Airflow."""
    name = "Penstock"
    package = __name__
    return {
        "package-name": "airflow-providers-penstock",
        "name": name,
        "description": "Loads topics into Hadoop, and waits for hours that have every line.",
        "operators": [{"integration-name": name, "python-modules": [f"{package}.operator"]}],
        "sensors": [{"integration-name": name, "python-modules": [f"{package}.sensor"]}],
        "triggers": [{"integration-name": name, "python-modules": [f"{package}.trigger"]}],
        "hooks": [{"integration-name": name, "python-modules": [f"{package}.hook"]}],
        "connection-types": [
            {
                "connection-type": "penstock",
                "hook-name": name,
                "hook-class-name": f"{package}.hook.PenstockHook",
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {
                        "host": "Audit's host",
                        "schema": "http or https",
                        "login": "User (with a password)",
                        "password": "Password, or token without a user",
                    },
                    "placeholders": {"host": "audit", "port": "8090", "schema": "https"},
                },
                "conn-fields": {
                    "ca": _text("CA certificates", "A PEM file. Default: the system's."),
                    "certificate": _text("Client certificate", "A PEM file."),
                    "key": _text("Its private key", "A PEM file. Default: the certificate's."),
                    "without_tls": {
                        "label": "Allow a token over http",
                        "description": "It can be read on the network.",
                        "schema": {"type": ["boolean", "null"]},
                    },
                },
            }
        ],
    }


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}
