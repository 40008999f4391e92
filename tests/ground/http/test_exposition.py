"""What a scrape gets, read by Prometheus's own parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from ground.http.exposition import Histogram, exposition_of


def test_a_program_is_asked_at_every_scrape_and_its_process_is_told_of_too() -> None:
    asked = 0

    def families() -> list[Metric]:
        nonlocal asked
        asked += 1
        return [CounterMetricFamily("scrapes", "How many there were.", value=asked)]

    exposition = exposition_of(families)
    assert asked == 0
    for number in (1, 2):
        found = {each.name: each for each in text_string_to_metric_families(exposition().decode())}
        (sample,) = found["scrapes"].samples
        assert sample.value == number
        assert "process_resident_memory_bytes" in found


@given(st.lists(st.floats(0, 20)))
def test_durations_are_counted_up_to_their_bounds(durations: list[float]) -> None:
    histogram = Histogram()
    for each in durations:
        histogram.observe(each)
    family = HistogramMetricFamily("seconds", "What it takes.", labels=["of"])
    histogram.add_to(family, ["a"])
    counts = {
        float(each.labels["le"]): each.value for each in family.samples if "le" in each.labels
    }
    assert counts == {bound: sum(each <= bound for each in durations) for bound in counts}
    assert counts[float("inf")] == len(durations)
    (total,) = (each.value for each in family.samples if each.name == "seconds_sum")
    assert total == pytest.approx(sum(durations))
