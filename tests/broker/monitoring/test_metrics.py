"""What a broker counts, as Prometheus's own parser reads it."""

from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.monitoring.metrics import BrokerMetrics, PartitionGauge
from wire.errors import ErrorCode


def exposed(metrics: BrokerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """By the name without `penstock_broker_`, and labels in their order."""
    return {
        (sample.name.removeprefix("penstock_broker_"), tuple(sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


@pytest.fixture
def metrics() -> BrokerMetrics:
    return BrokerMetrics(lambda: ())


def test_traffic_is_counted_by_topic_until_it_is_forgotten(metrics: BrokerMetrics) -> None:
    views, clicks = metrics.topic("views"), metrics.topic("clicks")
    views.bytes_in += 99
    metrics.topic("views").bytes_in += 1
    views.messages_in += 3
    clicks.bytes_out += 7
    found = exposed(metrics)
    assert found["topic_bytes_in_total", (("topic", "views"),)] == 100
    assert found["topic_messages_in_total", (("topic", "views"),)] == 3
    assert found["topic_bytes_out_total", (("topic", "clicks"),)] == 7
    for _ in range(2):
        metrics.forget_topic("views")
    assert b'topic="views"' not in metrics.exposition()
    assert metrics.topic("views").bytes_in == 0


def test_complaints_connections_and_refused_batches_are_counted(metrics: BrokerMetrics) -> None:
    for kind in ("request refused", "connection closed", "request refused"):
        metrics.complained(kind)
    for _ in range(2):
        metrics.rejected(ErrorCode.corrupt_message)
    metrics.connections = 5
    found = exposed(metrics)
    assert found["complaints_total", (("kind", "request refused"),)] == 2
    assert found["complaints_total", (("kind", "connection closed"),)] == 1
    assert found["rejected_batches_total", (("error", "CORRUPT_MESSAGE"),)] == 2, "Kafka's name"
    assert found["connections", ()] == 5
    assert found["process_resident_memory_bytes", ()] > 0


def test_durations_fall_into_the_bucket_that_their_bound_names(metrics: BrokerMetrics) -> None:
    for seconds in (0.001, 0.0011, 0.3, 99.0):
        metrics.request("Produce", seconds)
    metrics.flush(0.02)
    found = exposed(metrics)
    bounds = ("0.0005", "0.001", "0.0025", "0.5", "10.0", "+Inf")
    requests = [
        found["request_seconds_bucket", (("api", "Produce"), ("le", bound))] for bound in bounds
    ]
    assert requests == [0, 1, 2, 3, 3, 4]
    assert found["request_seconds_count", (("api", "Produce"),)] == 4
    assert found["request_seconds_sum", (("api", "Produce"),)] == pytest.approx(99.3021)
    flushes = [found["flush_seconds_bucket", (("le", bound),)] for bound in ("0.01", "0.025")]
    assert (flushes, found["flush_seconds_count", ()]) == ([0, 1], 1)


def test_partitions_are_asked_at_each_scrape_and_offline_ones_have_no_offsets() -> None:
    ends = iter((10, 11))

    def partitions() -> Iterable[PartitionGauge]:
        yield PartitionGauge(
            topic="views",
            partition=1,
            online=True,
            log_start_offset=2,
            log_end_offset=next(ends),
            exposed_offset=9,
            log_bytes=4096,
        )
        yield PartitionGauge(topic="broken", partition=0, online=False)

    metrics = BrokerMetrics(partitions)
    labels = (("partition", "1"), ("topic", "views"))
    assert exposed(metrics)["log_end_offset", labels] == 10
    found = exposed(metrics)
    told = {
        "log_end_offset": 11,
        "log_start_offset": 2,
        "exposed_offset": 9,
        "log_bytes": 4096,
        "partition_online": 1,
    }
    assert {name: found[name, labels] for name in told} == told
    offline = (("partition", "0"), ("topic", "broken"))
    assert found["partition_online", offline] == 0
    assert ("log_end_offset", offline) not in found


def test_hostile_names_stay_inside_their_label() -> None:
    name = 'b\\"} 1\nevil{x="'
    metrics = BrokerMetrics(lambda: [PartitionGauge(topic=name, partition=0, online=True)])
    metrics.topic(name).bytes_in += 1
    found = exposed(metrics)
    assert found["partition_online", (("partition", "0"), ("topic", name))] == 1
    assert found["topic_bytes_in_total", (("topic", name),)] == 1
    assert not any(name.startswith("evil") for name, _ in found)
