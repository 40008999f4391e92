"""The mirror's HTTP pages: /metrics, /healthz, /readyz, /api/v1/standing."""

import json

from ground.http.exposition import EXPOSITION_TYPE
from ground.http.page_door import PageDoor
from ground.http.page_server import Page, PageServer, readiness_page, text_page
from ground.network.refusals import Refusals
from mirror.monitoring.metrics import MirrorMetrics
from mirror.monitoring.status import MirrorStatus


def page_server(standing: MirrorStatus, metrics: MirrorMetrics) -> PageServer:
    """The server of the pages. Raises CannotListen."""
    config = standing.config
    return PageServer(
        config.http_host,
        config.http_port,
        {
            "/metrics": lambda: Page(metrics.exposition(), EXPOSITION_TYPE),
            "/healthz": lambda: text_page("alive"),
            "/readyz": lambda: readiness_page(standing.why_not_ready, list(standing.remarks())),
            "/api/v1/standing": lambda: Page(
                json.dumps(standing.json()).encode() + b"\n", "application/json"
            ),
        },
        PageDoor(config.http, Refusals()),
    )
