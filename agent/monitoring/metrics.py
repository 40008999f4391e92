"""The agent's metrics for Prometheus, made of one `Status` at each request."""

from collections.abc import Iterator, Sequence
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
    """A field of a struct as a metric. The value of a text is 1, or 0 if it is empty. `name` is the
    metric's name if it differs from the field's."""

    field: str
    kind: Literal["counter", "gauge"]
    documentation: str
    name: str = ""

    def family(self, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        return make(_PREFIX + (self.name or self.field), self.documentation, labels=labels)

    def value(self, struct: msgspec.Struct) -> float:
        value = getattr(struct, self.field)
        return bool(value) if isinstance(value, str) else value


_OF_INPUTS: Final = (
    _Shown("files", "gauge", "Followed files."),
    _Shown("unreadable_files", "gauge", "Files that cannot be read."),
    _Shown("lag_bytes", "gauge", "Bytes of files that are not acknowledged yet."),
    _Shown("lag_seconds", "gauge", "How long the oldest of them has waited."),
    _Shown("stopped", "gauge", "1 if the input has stopped.", "input_stopped"),
    _Shown("warning", "gauge", "1 if the input runs with a problem.", "input_warning"),
    _Shown("events", "counter", "Events written to the journal."),
    _Shown("lines", "counter", "Lines that these events were made of."),
    _Shown("bytes", "counter", "Bytes of files processed."),
    _Shown("filtered_lines", "counter", "Lines dropped by filters or sampling."),
    _Shown("dead_lettered_lines", "counter", "Lines that became dead letters."),
    _Shown("lost_bytes", "counter", "Bytes lost unread, e.g. by truncation."),
    _Shown("cut_lines", "counter", "Lines cut at max_line_bytes."),
    _Shown("replaced_lines", "counter", "Lines with invalid bytes."),
    _Shown("replaced_characters", "counter", "U+FFFD for invalid bytes."),
    _Shown("dropped_values", "counter", "Values of fields not in the schema."),
    _Shown("unread_files", "counter", "Compressed files that are not read."),
    _Shown("waiting_archives", "gauge", "Archives that are yet to be read."),
    _Shown("adjusted_times", "counter", "Events with times out of range."),
    _Shown("rate_limited_seconds", "counter", "Time spent at rate_limit."),
)
_OF_TOPICS: Final = (
    _Shown("batches", "counter", "Batches acknowledged.", "topic_batches"),
    _Shown("events", "counter", "Events acknowledged.", "topic_events"),
    _Shown("bytes", "counter", "Bytes of batches acknowledged.", "topic_bytes"),
    _Shown("retries", "counter", "Batches sent again.", "topic_retries"),
    _Shown("replaced", "counter", "Batches refused and replaced.", "topic_replaced_batches"),
    _Shown("in_flight_batches", "gauge", "Not acknowledged yet.", "topic_in_flight_batches"),
    _Shown("in_flight_bytes", "gauge", "Not acknowledged yet.", "topic_in_flight_bytes"),
    _Shown("stalled", "gauge", "1 while the topic refuses batches.", "topic_stalled"),
    _Shown("schema_version", "gauge", "Version in use; -1: none.", "topic_schema_version"),
)
_OF_JOURNAL: Final = (
    _Shown("bytes", "gauge", "Size of the journal.", "journal_bytes"),
    _Shown("open_batches", "gauge", "Unacknowledged batches in it.", "journal_open_batches"),
    _Shown("statements", "gauge", "Ledger statements to publish.", "journal_statements"),
    _Shown("sources", "gauge", "Remembered sources.", "journal_sources"),
    _Shown("full", "gauge", "1 while it cannot be written.", "journal_full"),
    _Shown("given_up_statements", "counter", "Statements that were dropped.", "ledger_given_up"),
)
_OF_PROCESS: Final = (
    _Shown("open_files", "gauge", "Open files that are followed."),
    _Shown("kept_files", "gauge", "Open files that outlive the process."),
    _Shown("paused_seconds", "counter", "Time paused to keep limits.cpu."),
    _Shown("in_flight_bytes", "gauge", "All batches not acknowledged yet."),
    _Shown(
        "in_flight_limit", "gauge", "The present limit of in-flight bytes.", "in_flight_limit_bytes"
    ),
    _Shown("over_memory", "gauge", "1 if above limits.memory_bytes."),
)


def families(status: Status) -> Iterator[Metric]:
    agent_labels = {"agent": status.agent, "host": status.host, "cluster": status.cluster}
    info = {**agent_labels, "version": status.version, "phase": status.phase.value}
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
    inputs = [((input_.name, input_.topic), input_) for input_ in status.inputs]
    yield from _families(_OF_INPUTS, ("input", "topic"), inputs)
    topics = [((topic.name,), topic) for topic in status.topics]
    yield from _families(_OF_TOPICS, ("topic",), topics)
    yield from _families(_OF_JOURNAL, (), [((), status.journal)])
    yield from _families(_OF_PROCESS, (), [((), status.process)])


def _families(
    fields: Sequence[_Shown],
    labels: tuple[str, ...],
    structs: Sequence[tuple[tuple[str, ...], msgspec.Struct]],
) -> Iterator[Metric]:
    for field in fields:
        family = field.family(labels)
        for values, struct in structs:
            family.add_metric(values, field.value(struct))
        yield family
