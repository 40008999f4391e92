"""The connection type `penstock`: an audit, with its token or login, and TLS."""

import asyncio

import httpx
from airflow.sdk import BaseHook

from airflow_providers_penstock.address import AuditAddress, BadConnection, address_of
from airflow_providers_penstock.audit import verdict_on
from airflow_providers_penstock.hour_verdicts import HourQuestion, Verdict, one_line


class PenstockHook(BaseHook):
    """Asks the audit of a connection."""

    conn_name_attr = "penstock_conn_id"
    default_conn_name = "penstock_default"
    conn_type = "penstock"
    hook_name = "Penstock"

    def __init__(self, penstock_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.penstock_conn_id = penstock_conn_id

    def address(self) -> AuditAddress:
        """Raises BadConnection."""
        return address_of(self.get_connection(self.penstock_conn_id))

    def verdict_on(self, question: HourQuestion) -> Verdict:
        """Raises BadConnection."""
        return asyncio.run(verdict_on(self.address(), question))

    async def averdict_on(self, question: HourQuestion) -> Verdict:
        """Looks the connection up each time, so that a new token takes effect during a wait. Raises
        BadConnection."""
        connection = await self.aget_connection(self.penstock_conn_id)
        return await verdict_on(address_of(connection), question)

    def test_connection(self) -> tuple[bool, str]:
        """Tries the credentials on a path that needs them."""
        try:
            address = self.address()
            answer = httpx.get(
                f"{address.url}/api/v1/brokers",
                headers=address.headers,
                verify=address.tls(),
                timeout=10,
            )
        except (BadConnection, httpx.HTTPError) as error:
            return False, one_line(str(error))
        if answer.status_code == 200:
            return True, "the audit answers"
        return False, one_line(f"HTTP {answer.status_code}: {answer.text}")
