"""The operator that loads."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_providers_penstock.load_outcomes import (
    Outcome,
    failure_words,
    outcome_of,
    report_in,
    summary_of,
)
from airflow_providers_penstock.load_process import LoadProcess, load_command

_LEVELS: Final = {"WARNING": logging.WARNING, "ERROR": logging.ERROR}


class PenstockLoadOperator(BaseOperator):
    """Runs `penstock load` on the worker, and returns what was loaded, for XCom.

    The task is skipped if there was nothing to do, and fails without retries where these do not
    help (see `load_outcomes`). Killing the task, or its timeout, ends the load.

    :param config: the path of loader.yaml on the worker (templated)
    :param tables: only these of the configured tables: names or patterns (templated)
    :param executable: the path of `penstock` on the worker, in an environment of its own
    :param env: added to the worker's environment, such as HADOOP_CONF_DIR (templated)
    :param patience: the seconds that a load has to end after the task's timeout, before it is
        killed
    """

    template_fields: Sequence[str] = ("config", "tables", "env")
    ui_color = "#d5e8f2"

    def __init__(
        self,
        *,
        config: str = "/etc/penstock/loader.yaml",
        tables: Sequence[str] = (),
        executable: str = "/opt/penstock/bin/penstock",
        env: Mapping[str, str] | None = None,
        patience: float = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.config = config
        self.tables = tables
        self.executable = executable
        self.env = env
        self.patience = patience
        self._process: LoadProcess | None = None
        self._report: dict[str, Any] = {}
        self._last_line = ""

    def execute(self, context: Any) -> dict[str, Any]:
        if isinstance(self.tables, str):
            raise AirflowFailException("`tables` must be a list of names or patterns")
        try:
            command = load_command(self.executable, self.config, list(self.tables))
        except ValueError as error:
            raise AirflowFailException(str(error)) from None
        self._process = LoadProcess(command, dict(self.env or {}))
        exit_code, output = self._process.run(self._log_line, self.patience)
        self._report = report_in(output)
        summary = summary_of(self._report)
        outcome = outcome_of(exit_code)
        if outcome is Outcome.SUCCESS:
            return summary
        if outcome is Outcome.NOTHING_TO_DO:
            raise AirflowSkipException("there was nothing to do")
        context["ti"].xcom_push(key="return_value", value=summary)
        words = failure_words(exit_code, self._report, self._last_line)
        if outcome is Outcome.FINAL_FAILURE:
            raise AirflowFailException(words)
        raise AirflowException(words)

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.end()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        from airflow_providers_penstock import lineage  # noqa: PLC0415  where it is installed

        return lineage.of_load(self._report)

    def _log_line(self, line: str) -> None:
        """A line is `TIME LEVEL LOGGER EVENT`, or a message on stderr."""
        level = _LEVELS.get(([*line.split(" ", 2), "", ""])[1], logging.INFO)
        self.log.log(level, "%s", line)
        if line.strip():
            self._last_line = line
