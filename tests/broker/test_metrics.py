"""What a broker counts, as Prometheus's own parser reads it."""

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from broker.metrics import BrokerMetrics, PartitionGauge
from wire.errors import ErrorCode


def exposed(metrics: BrokerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def no_partitions() -> Iterable[PartitionGauge]:
    return ()


def test_traffic_is_counted_by_topic() -> None:
    metrics = BrokerMetrics(no_partitions)
    views, clicks = metrics.topic("views"), metrics.topic("clicks")
    views.bytes_in += 100
    views.messages_in += 3
    clicks.bytes_out += 7

    found = exposed(metrics)

    assert found["penstock_broker_topic_bytes_in_total", (("topic", "views"),)] == 100
    assert found["penstock_broker_topic_messages_in_total", (("topic", "views"),)] == 3
    assert found["penstock_broker_topic_bytes_out_total", (("topic", "clicks"),)] == 7


def test_a_topic_has_one_set_of_counters_until_it_is_forgotten() -> None:
    metrics = BrokerMetrics(no_partitions)
    metrics.topic("views").bytes_in += 1
    assert metrics.topic("views").bytes_in == 1

    metrics.forget_topic("views")
    metrics.forget_topic("views")

    assert b'topic="views"' not in metrics.exposition()
    assert metrics.topic("views").bytes_in == 0


def test_complaints_are_counted_by_kind() -> None:
    metrics = BrokerMetrics(no_partitions)
    for kind in ("request refused", "connection closed", "request refused"):
        metrics.complained(kind)

    found = exposed(metrics)

    name = "penstock_broker_complaints_total"
    assert found[name, (("kind", "request refused"),)] == 2
    assert found[name, (("kind", "connection closed"),)] == 1


def test_durations_fall_into_the_bucket_that_their_bound_names() -> None:
    metrics = BrokerMetrics(no_partitions)
    for seconds in (0.001, 0.0011, 0.3, 99.0):
        metrics.request("Produce", seconds)
    metrics.flush(0.02)

    found = exposed(metrics)

    def requests_up_to(bound: str) -> float:
        return found["penstock_broker_request_seconds_bucket", (("api", "Produce"), ("le", bound))]

    assert requests_up_to("0.0005") == 0
    assert requests_up_to("0.001") == 1
    assert requests_up_to("0.0025") == 2
    assert requests_up_to("0.5") == 3
    assert requests_up_to("10.0") == 3
    assert requests_up_to("+Inf") == 4
    assert found["penstock_broker_request_seconds_count", (("api", "Produce"),)] == 4
    assert abs(found["penstock_broker_request_seconds_sum", (("api", "Produce"),)] - 99.3021) < 1e-9
    assert found["penstock_broker_flush_seconds_bucket", (("le", "0.01"),)] == 0
    assert found["penstock_broker_flush_seconds_bucket", (("le", "0.025"),)] == 1
    assert found["penstock_broker_flush_seconds_count", ()] == 1


def test_refused_batches_are_counted_under_kafkas_names_of_the_errors() -> None:
    metrics = BrokerMetrics(no_partitions)
    metrics.rejected(ErrorCode.corrupt_message)
    metrics.rejected(ErrorCode.corrupt_message)

    found = exposed(metrics)

    name = "penstock_broker_rejected_batches_total"
    assert found[name, (("error", "CORRUPT_MESSAGE"),)] == 2


def test_partitions_are_asked_at_each_scrape_and_offline_ones_have_no_offsets() -> None:
    log_end_offset = 10

    def partitions() -> Iterable[PartitionGauge]:
        yield PartitionGauge(
            topic="views",
            partition=1,
            online=True,
            log_start_offset=2,
            log_end_offset=log_end_offset,
            exposed_offset=9,
            log_bytes=4096,
        )
        yield PartitionGauge(topic="broken", partition=0, online=False)

    metrics = BrokerMetrics(partitions)
    labels = (("partition", "1"), ("topic", "views"))
    assert exposed(metrics)["penstock_broker_log_end_offset", labels] == 10
    log_end_offset = 11

    found = exposed(metrics)

    assert found["penstock_broker_log_end_offset", labels] == 11
    assert found["penstock_broker_log_start_offset", labels] == 2
    assert found["penstock_broker_exposed_offset", labels] == 9
    assert found["penstock_broker_log_bytes", labels] == 4096
    assert found["penstock_broker_partition_online", labels] == 1
    offline = (("partition", "0"), ("topic", "broken"))
    assert found["penstock_broker_partition_online", offline] == 0
    assert ("penstock_broker_log_end_offset", offline) not in found


def test_connections_and_the_process_itself() -> None:
    metrics = BrokerMetrics(no_partitions)
    metrics.connections = 5

    found = exposed(metrics)

    assert found["penstock_broker_connections", ()] == 5
    assert found["process_resident_memory_bytes", ()] > 0


def test_hostile_names_stay_inside_their_label() -> None:
    def partitions() -> Iterable[PartitionGauge]:
        yield PartitionGauge(topic='b\\"} 1\nevil{x="', partition=0, online=True)

    metrics = BrokerMetrics(partitions)
    metrics.topic('a"} 1\nevil{x="').bytes_in += 1

    found = exposed(metrics)

    labels = (("partition", "0"), ("topic", 'b\\"} 1\nevil{x="'))
    assert found["penstock_broker_partition_online", labels] == 1

    name = "penstock_broker_topic_bytes_in_total"
    assert found[name, (("topic", 'a"} 1\nevil{x="'),)] == 1
    assert not any(name.startswith("evil") for name, _ in found)
