"""Waits for an hour in Airflow's triggerer, where it occupies no worker."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_providers_penstock.address import BadConnection
from airflow_providers_penstock.hook import PenstockHook
from airflow_providers_penstock.hour_verdicts import HourQuestion, State, Verdict, one_line


class HourTrigger(BaseTrigger):
    """Asks the audit until the hour is complete, or waiting does not help. Its event is that
    verdict. Each new reason for waiting is one line in the task's log."""

    def __init__(
        self,
        *,
        topic: str,
        hour: int,
        cluster: str,
        landed: bool,
        penstock_conn_id: str,
        poke_interval: float,
    ) -> None:
        super().__init__()
        self.question = HourQuestion(topic=topic, hour=hour, cluster=cluster, landed=landed)
        self.penstock_conn_id = penstock_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        question = self.question
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "topic": question.topic,
            "hour": question.hour,
            "cluster": question.cluster,
            "landed": question.landed,
            "penstock_conn_id": self.penstock_conn_id,
            "poke_interval": self.poke_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = PenstockHook(self.penstock_conn_id)
        last_reason = ""
        while True:
            try:
                verdict = await hook.averdict_on(self.question)
            except BadConnection as error:
                verdict = Verdict(State.HOPELESS, one_line(str(error)))
            if verdict.state is not State.WAITING:
                yield TriggerEvent(verdict.as_dict())
                return
            if verdict.reason != last_reason:
                self.log.info("%s: %s", self.question.words, verdict.reason)
                last_reason = verdict.reason
            await asyncio.sleep(self.poke_interval)
