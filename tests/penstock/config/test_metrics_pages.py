"""The metrics of broker and registry against their pages: every one, with its labels.

Agents' and the audit's are held by tests/agent/test_agent_page.py and
tests/penstock/services/test_audit_document.py. A loader has no metrics.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker.groups.counts import GroupCounts
from broker.groups.values import State
from broker.metrics import BrokerMetrics, CheckedGauge, LossGauge, PartitionGauge
from broker.replication.throttle import Throttle
from broker.standing import CopyingFigures, figures
from cluster.values import ClusterSnapshot
from ground.exposition import certificate_family, door_families
from registry.http.metrics import Gauges, RegistryMetrics
from wire.errors import ErrorCode

DOCS = Path(__file__).resolve().parents[3] / "docs"


def explained(program: str) -> dict[str, set[str]]:
    """The labels of each metric, as its page has them."""
    rows = re.findall(
        r"^\| (`penstock_.*?) \| (.*?) ?\| .+ \|$",
        (DOCS / f"{program}.md").read_text(),
        re.MULTILINE,
    )
    return {
        name: set(filter(None, labels.split(", ")))
        for names, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def exposed(families: Iterable[Metric]) -> dict[str, set[str]]:
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels
        }
        - {"le"}
        for family in families
    }


def test_of_a_broker() -> None:
    partition = PartitionGauge(topic="views", partition=0, online=True, follower_lag=0)
    loss = LossGauge(topic="views", partition=0, offsets=200)
    logs = {("views", 0): (1_795_000_000.0, -0.001)}
    checked = CheckedGauge({("views", 0): 1}, 4_096, 1_795_000_000, logs)
    moved = Throttle()
    moved.follow(1_000, now=0)
    metrics = BrokerMetrics(
        lambda: (partition,),
        lambda: (loss,),
        lambda: checked,
        allowed={"partitions": 10_000},
        more=lambda: (
            certificate_family({"ca.pem": 1_795_000_000.0}),
            *GroupCounts().families([(State.STABLE, 3)]),
            *door_families("penstock_broker_", {"there is no such token": 1}, is_open=False),
            *figures(
                ClusterSnapshot(),
                is_controller=True,
                is_connected=True,
                copying=CopyingFigures(),
                throttles={"sent": moved},
            ),
        ),
    )
    metrics.topic("views").bytes_in += 1
    metrics.request("Produce", 0.1)
    metrics.rejected(ErrorCode.corrupt_message)
    metrics.complained("request refused")
    families = text_string_to_metric_families(metrics.exposition().decode())
    assert explained("broker") == exposed(
        family for family in families if family.name.startswith("penstock_")
    )


def test_of_a_registry() -> None:
    gauges = Gauges(
        versions=1,
        offset=2,
        connections=3,
        highest_id=4,
        is_writer=True,
        mirrored_offsets={"dc1._schemas": 5},
    )
    metrics = RegistryMetrics(lambda: gauges, lambda: {"ca.pem": 1_795_000_000.0})
    metrics.request("GET", "/subjects", 200, 0.1)
    assert explained("registry") == exposed(metrics.families())
