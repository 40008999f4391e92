"""An agent's pages: /metrics, /healthz, /readyz and /status."""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from agent.http.metrics import families
from agent.status import STATUS_PATH, Status, why_not_ready
from ground.exposition import EXPOSITION_TYPE, exposition_of
from ground.page_server import Page, readiness_page, text_page

_KEPT_SECONDS: Final = 1.0


def agent_pages(
    status: Callable[[], Status], stuck: Callable[[], str]
) -> Mapping[str, Callable[[], Page]]:
    """`stuck` says why the agent does not move any more; empty while it does."""
    exposition = exposition_of(lambda: families(status()))
    return {
        "/metrics": lambda: Page(exposition(), EXPOSITION_TYPE),
        "/healthz": lambda: _health(stuck()),
        "/readyz": lambda: readiness_page(why_not_ready(status())),
        STATUS_PATH: _StatusPage(status),
    }


def _health(stuck: str) -> Page:
    return text_page(stuck, HTTPStatus.SERVICE_UNAVAILABLE) if stuck else text_page("alive")


class _StatusPage:
    """Of 10,000 files it has megabytes: it is kept for a moment, so that many clients who read it
    slowly hold one of them."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status
        self._made = -_KEPT_SECONDS
        self._page = Page(b"")

    def __call__(self) -> Page:
        now = time.monotonic()
        if now - self._made >= _KEPT_SECONDS:
            self._page = Page(msgspec.json.encode(self._status()) + b"\n", "application/json")
            self._made = now
        return self._page
