"""Asks the audit about an hour, with Airflow's own HTTP client.

Every outcome is a verdict: while the audit cannot be reached, the hour waits.
"""

import asyncio
from collections.abc import Mapping

import httpx

from airflow_providers_penstock.address import AuditAddress
from airflow_providers_penstock.hour_verdicts import (
    HourQuestion,
    State,
    Verdict,
    gate_verdict,
    one_line,
    report_verdict,
)

_SECONDS = 60.0
_MOST_BYTES = 16 * 1024 * 1024


class TooLong(Exception):
    """The answer is longer than any of an audit's."""


async def verdict_on(address: AuditAddress, question: HourQuestion) -> Verdict:
    """Raises BadConnection."""
    tls = await asyncio.to_thread(address.tls)  # other triggers run meanwhile
    try:
        async with httpx.AsyncClient(
            base_url=address.url,
            headers=address.headers,
            verify=tls,
            timeout=_SECONDS,
            follow_redirects=False,
        ) as client:
            verdict = gate_verdict(*await _get(client, "/api/v1/hour", question.gate_query))
            if verdict.state is State.COMPLETE and question.landed:
                return report_verdict(*await _get(client, "/api/v1/report", question.report_query))
            return verdict
    except TooLong:
        return Verdict(State.HOPELESS, f"{address.url} did not answer like an audit")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        words = one_line(f"{type(error).__name__}: {error}")
        return Verdict(State.WAITING, f"the audit at {address.url} cannot be reached ({words})")


async def _get(client: httpx.AsyncClient, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
    body = bytearray()
    async with client.stream("GET", path, params=query) as response:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise TooLong
    return response.status_code, bytes(body)
