"""A broker's HTTP endpoints, for Prometheus and supervisors: /metrics, /healthz, /readyz."""

from collections.abc import Callable, Sequence

from broker.monitoring.metrics import BrokerMetrics
from ground.http.exposition import EXPOSITION_TYPE
from ground.http.page_door import PageDoor
from ground.http.page_server import Page, PageServer, readiness_page, text_page


class BrokerHttpServer(PageServer):
    """Serves the pages. `readiness` returns why the broker is not ready, "" if it is; `remarks`
    returns problems that do not affect readiness; `health` returns the state of the broker's
    ZooKeeper session. All are called on this server's thread. `signing_key` is a fingerprint."""

    def __init__(
        self,
        host: str,
        port: int,
        metrics: BrokerMetrics,
        *,
        readiness: Callable[[], str],
        health: Callable[[], str],
        signing_key: str,
        remarks: Callable[[], Sequence[str]] = tuple,
        door: PageDoor | None = None,
    ) -> None:
        pages = {
            "/metrics": lambda: Page(metrics.exposition(), EXPOSITION_TYPE),
            "/healthz": lambda: text_page(
                f"alive\nzookeeper: {health()}\nsigning key: {signing_key}"
            ),
            "/readyz": lambda: readiness_page(readiness(), remarks()),
        }
        super().__init__(host, port, pages, door)
