"""The sensor of an hour."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_providers_penstock.address import BadConnection
from airflow_providers_penstock.hook import PenstockHook
from airflow_providers_penstock.hour_verdicts import (
    BadHour,
    HourQuestion,
    State,
    Verdict,
    hour_of,
)
from airflow_providers_penstock.trigger import HourTrigger


class PenstockHourSensor(BaseSensorOperator):
    """Waits until the audit says that an hour of a topic is complete.

    It fails at once, without retries, if waiting does not help: the audit knows no such topic, has
    forgotten the hour, or rejects the credentials; or the hour is in the future. While the audit
    finds a fault, or cannot be reached, the sensor waits, since an operator may mend it.

    :param topic: the topic's name (templated)
    :param hour: any time within the hour, in UTC unless it says otherwise (templated). Default: the
        last hour that had ended at the end of the run's data interval
    :param cluster: the cluster's name, if several have this topic (templated)
    :param landed: whether the rows in Hadoop count as well. False before a load, which would
        otherwise wait for itself
    :param penstock_conn_id: the connection to the audit
    :param deferrable: whether to wait in the triggerer. False: in a worker, as `mode` says
    """

    template_fields: Sequence[str] = ("topic", "hour", "cluster")
    ui_color = "#d5e8f2"

    def __init__(
        self,
        *,
        topic: str,
        hour: str | datetime = "{{ data_interval_end - macros.timedelta(hours=1) }}",
        cluster: str = "",
        landed: bool = True,
        penstock_conn_id: str = PenstockHook.default_conn_name,
        deferrable: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.topic = topic
        self.hour = hour
        self.cluster = cluster
        self.landed = landed
        self.penstock_conn_id = penstock_conn_id
        self.deferrable = deferrable
        self._judged: tuple[HourQuestion, Verdict] | None = None

    def execute(self, context: Any) -> Any:
        if not self.deferrable:
            return super().execute(context)
        question = self._question()
        if self._is_complete(question, self._ask(question)):
            return self._counts()
        self.defer(
            trigger=HourTrigger(
                topic=question.topic,
                hour=question.hour,
                cluster=question.cluster,
                landed=question.landed,
                penstock_conn_id=self.penstock_conn_id,
                poke_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            kwargs={"hour": question.hour},
            timeout=timedelta(seconds=self.timeout),
        )
        return None

    def execute_complete(self, context: Any, event: dict[str, Any], hour: int) -> Any:
        """Continues with the trigger's verdict."""
        self._is_complete(self._question_of(hour), Verdict.from_dict(event))
        return self._counts()

    def poke(self, context: Any) -> PokeReturnValue:
        question = self._question()
        is_complete = self._is_complete(question, self._ask(question))
        return PokeReturnValue(is_complete, self._counts() if is_complete else None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        from airflow_providers_penstock import lineage  # noqa: PLC0415  where it is installed

        return lineage.of_hour(*self._judged) if self._judged else None

    def _question(self) -> HourQuestion:
        try:
            return self._question_of(hour_of(self.hour, datetime.now(UTC)))
        except BadHour as error:
            raise self._failure(str(error)) from None

    def _question_of(self, hour: int) -> HourQuestion:
        return HourQuestion(topic=self.topic, hour=hour, cluster=self.cluster, landed=self.landed)

    def _ask(self, question: HourQuestion) -> Verdict:
        try:
            return PenstockHook(self.penstock_conn_id).verdict_on(question)
        except BadConnection as error:
            raise self._failure(f"connection {self.penstock_conn_id}: {error}") from None

    def _is_complete(self, question: HourQuestion, verdict: Verdict) -> bool:
        """Whether the hour is complete. Fails the task if waiting does not help."""
        self._judged = question, verdict
        if verdict.state is State.HOPELESS:
            raise self._failure(f"{question.words}: {verdict.reason}")
        is_complete = verdict.state is State.COMPLETE
        state = "complete " if is_complete else ""
        self.log.info("%s: %s%s", question.words, state, verdict.reason)
        return is_complete

    def _counts(self) -> dict[str, int]:
        """The events of the hour by tier, for XCom."""
        assert self._judged is not None
        _, verdict = self._judged
        return {f"{tier.name} {tier.destination}".strip(): tier.events for tier in verdict.tiers}

    def _failure(self, words: str) -> AirflowException:
        """The error that ends the task without retries."""
        is_soft = self.soft_fail or self.never_fail
        kind: type[AirflowException] = AirflowSkipException if is_soft else AirflowFailException
        return kind(words)
