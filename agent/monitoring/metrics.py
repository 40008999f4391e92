"""The agent's metrics for Prometheus, made of one `Status` at each request."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from agent.monitoring.status import Status, why_not_ready

_PREFIX: Final = "penstock_agent_"


class _Shown(msgspec.Struct, frozen=True):
    """A field of a struct as a metric. The value of a text is 1, or 0 if it is empty."""

    field: str
    kind: Literal["counter", "gauge"]
    name: str
    documentation: str

    def family(self, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        return make(_PREFIX + self.name, self.documentation, labels=labels)

    def value(self, struct: msgspec.Struct) -> float:
        value = getattr(struct, self.field)
        return bool(value) if isinstance(value, str) else value


_OF_INPUTS: Final = (
    _Shown("files", "gauge", "files", "Followed files."),
    _Shown("unreadable_files", "gauge", "unreadable_files", "Files that cannot be read."),
    _Shown("lag_bytes", "gauge", "lag_bytes", "Bytes of files that are not acknowledged yet."),
    _Shown("lag_seconds", "gauge", "lag_seconds", "How long the oldest of them has waited."),
    _Shown("stopped", "gauge", "input_stopped", "1 if the input has stopped."),
    _Shown("warning", "gauge", "input_warning", "1 if the input runs with a problem."),
    _Shown("events", "counter", "events", "Events written to the journal."),
    _Shown("lines", "counter", "lines", "Lines that these events were made of."),
    _Shown("bytes", "counter", "bytes", "Bytes of files processed."),
    _Shown("filtered_lines", "counter", "filtered_lines", "Lines dropped by filters or sampling."),
    _Shown(
        "dead_lettered_lines", "counter", "dead_lettered_lines", "Lines that became dead letters."
    ),
    _Shown("lost_bytes", "counter", "lost_bytes", "Bytes lost unread, e.g. by truncation."),
    _Shown("cut_lines", "counter", "cut_lines", "Lines cut at max_line_bytes."),
    _Shown("replaced_lines", "counter", "replaced_lines", "Lines with invalid bytes."),
    _Shown("replaced_characters", "counter", "replaced_characters", "U+FFFD for invalid bytes."),
    _Shown("dropped_values", "counter", "dropped_values", "Values of fields not in the schema."),
    _Shown("unread_files", "counter", "unread_files", "Compressed files that are not read."),
    _Shown("adjusted_times", "counter", "adjusted_times", "Events with times out of range."),
    _Shown("rate_limited_seconds", "counter", "rate_limited_seconds", "Time spent at rate_limit."),
)
_OF_TOPICS: Final = (
    _Shown("batches", "counter", "topic_batches", "Batches acknowledged."),
    _Shown("events", "counter", "topic_events", "Events acknowledged."),
    _Shown("bytes", "counter", "topic_bytes", "Bytes of batches acknowledged."),
    _Shown("retries", "counter", "topic_retries", "Batches sent again."),
    _Shown("replaced", "counter", "topic_replaced_batches", "Batches refused and replaced."),
    _Shown("in_flight_batches", "gauge", "topic_in_flight_batches", "Not acknowledged yet."),
    _Shown("in_flight_bytes", "gauge", "topic_in_flight_bytes", "Not acknowledged yet."),
    _Shown("stalled", "gauge", "topic_stalled", "1 while the topic refuses batches."),
    _Shown("schema_version", "gauge", "topic_schema_version", "Version in use; -1: none."),
)
_OF_JOURNAL: Final = (
    _Shown("bytes", "gauge", "journal_bytes", "Size of the journal."),
    _Shown("open_batches", "gauge", "journal_open_batches", "Unacknowledged batches in it."),
    _Shown("statements", "gauge", "journal_statements", "Ledger statements to publish."),
    _Shown("sources", "gauge", "journal_sources", "Remembered sources."),
    _Shown("full", "gauge", "journal_full", "1 while it cannot be written."),
    _Shown("given_up_statements", "counter", "ledger_given_up", "Statements that were dropped."),
)
_OF_PROCESS: Final = (
    _Shown("open_files", "gauge", "open_files", "Open files that are followed."),
    _Shown("kept_files", "gauge", "kept_files", "Open files that outlive the process."),
    _Shown("paused_seconds", "counter", "paused_seconds", "Time paused to keep limits.cpu."),
    _Shown("in_flight_bytes", "gauge", "in_flight_bytes", "All batches not acknowledged yet."),
    _Shown(
        "in_flight_limit", "gauge", "in_flight_limit_bytes", "The present limit of in-flight bytes."
    ),
    _Shown("over_memory", "gauge", "over_memory", "1 if above limits.memory_bytes."),
)


def families(status: Status) -> Iterator[Metric]:
    about = {"agent": status.agent, "host": status.host, "cluster": status.cluster}
    info = {**about, "version": status.version, "phase": status.phase.value}
    yield InfoMetricFamily(_PREFIX.rstrip("_"), "Identity of the agent.", info)
    for name, documentation, value in (
        ("ready", "1 if everything that is configured works.", not why_not_ready(status)),
        ("registry_reachable", "1 if the registry answers.", not status.registry),
        ("inotify", "1 if the kernel reports changes.", status.inotify == "on"),
        ("refused_files", "Files of inputs_dir that were rejected.", len(status.refusals)),
        (
            "configuration_seconds",
            "When the configuration was loaded.",
            status.loaded_millis / 1000,
        ),
    ):
        yield GaugeMetricFamily(_PREFIX + name, documentation, value=value)
    for shown in _OF_INPUTS:
        family = shown.family(("input", "topic"))
        for input_status in status.inputs:
            family.add_metric([input_status.name, input_status.topic], shown.value(input_status))
        yield family
    for shown in _OF_TOPICS:
        family = shown.family(("topic",))
        for topic in status.topics:
            family.add_metric([topic.name], shown.value(topic))
        yield family
    for struct, table in ((status.journal, _OF_JOURNAL), (status.process, _OF_PROCESS)):
        for shown in table:
            family = shown.family(())
            family.add_metric([], shown.value(struct))
            yield family
