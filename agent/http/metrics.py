"""What Prometheus gets to see of an agent: all of it made of one `Status`, when it asks."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from agent.status import Status, why_not_ready

_PREFIX: Final = "penstock_agent_"


class _Shown(msgspec.Struct, frozen=True):
    """A field of a struct as a metric. Of a text, whether it says anything."""

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
    _Shown("files", "gauge", "files", "Files that are followed."),
    _Shown("unreadable_files", "gauge", "unreadable_files", "Files that may not be read."),
    _Shown("lag_bytes", "gauge", "lag_bytes", "Bytes of files that are not acknowledged yet."),
    _Shown("lag_seconds", "gauge", "lag_seconds", "For how long the oldest of them waits."),
    _Shown("stopped", "gauge", "input_stopped", "1 if somebody must see to this input."),
    _Shown("warning", "gauge", "input_warning", "1 if it goes on, and something is wrong."),
    _Shown("events", "counter", "events", "Events taken over by the journal."),
    _Shown("lines", "counter", "lines", "Lines of files that they were made from."),
    _Shown("bytes", "counter", "bytes", "Bytes of files dealt with."),
    _Shown("filtered_lines", "counter", "filtered_lines", "Lines filtered or sampled away."),
    _Shown("dead_lettered_lines", "counter", "dead_lettered_lines", "Lines to the dead letters."),
    _Shown("lost_bytes", "counter", "lost_bytes", "Bytes lost unread, by truncation say."),
    _Shown("cut_lines", "counter", "cut_lines", "Lines cut at max_line_bytes."),
    _Shown("replaced_lines", "counter", "replaced_lines", "Lines with bytes not valid as text."),
    _Shown("replaced_characters", "counter", "replaced_characters", "U+FFFD put in their place."),
    _Shown("dropped_values", "counter", "dropped_values", "Values of fields not in the schema."),
    _Shown("unread_files", "counter", "unread_files", "Compressed files that are not read."),
    _Shown("adjusted_times", "counter", "adjusted_times", "Events with times out of bounds."),
    _Shown("rate_limited_seconds", "counter", "rate_limited_seconds", "Time in rate_limit."),
)
_OF_TOPICS: Final = (
    _Shown("batches", "counter", "topic_batches", "Batches acknowledged."),
    _Shown("events", "counter", "topic_events", "Events acknowledged."),
    _Shown("bytes", "counter", "topic_bytes", "Bytes of batches acknowledged."),
    _Shown("retries", "counter", "topic_retries", "Batches sent again."),
    _Shown("replaced", "counter", "topic_replaced_batches", "Batches refused, and cured."),
    _Shown("in_flight_batches", "gauge", "topic_in_flight_batches", "Not acknowledged yet."),
    _Shown("in_flight_bytes", "gauge", "topic_in_flight_bytes", "Not acknowledged yet."),
    _Shown("stalled", "gauge", "topic_stalled", "1 while the topic refuses what is sent."),
    _Shown("schema_version", "gauge", "topic_schema_version", "Version in use; -1 for none."),
)
_OF_JOURNAL: Final = (
    _Shown("bytes", "gauge", "journal_bytes", "Size of the journal."),
    _Shown("open_batches", "gauge", "journal_open_batches", "Batches that are kept in it."),
    _Shown("statements", "gauge", "journal_statements", "The ledger's, not yet published."),
    _Shown("sources", "gauge", "journal_sources", "Sources that are remembered."),
    _Shown("full", "gauge", "journal_full", "1 while nothing can be written down."),
    _Shown("given_up_statements", "counter", "ledger_given_up", "Statements that were dropped."),
)
_OF_PROCESS: Final = (
    _Shown("open_files", "gauge", "open_files", "Handles of files that are followed."),
    _Shown("kept_files", "gauge", "kept_files", "Of these, how many outlive the process."),
    _Shown("paused_seconds", "counter", "paused_seconds", "Time paused to keep limits.cpu."),
    _Shown("in_flight_bytes", "gauge", "in_flight_bytes", "All batches not acknowledged yet."),
    _Shown("in_flight_limit", "gauge", "in_flight_limit_bytes", "How many they may be now."),
    _Shown("over_memory", "gauge", "over_memory", "1 if above limits.memory_bytes."),
)


def families(status: Status) -> Iterator[Metric]:
    about = {"agent": status.agent, "host": status.host, "cluster": status.cluster}
    info = {**about, "version": status.version, "phase": status.phase.value}
    yield InfoMetricFamily(_PREFIX.rstrip("_"), "Who this is, and what it is about.", info)
    for name, documentation, value in (
        ("ready", "1 if everything that is configured goes its way.", not why_not_ready(status)),
        ("registry_reachable", "1 if the registry answers.", not status.registry),
        ("inotify", "1 if changes are told by the kernel.", status.inotify == "on"),
        ("refused_files", "Files of inputs_dir that are not taken.", len(status.refusals)),
        ("configuration_seconds", "When the configuration was taken.", status.loaded_millis / 1000),
    ):
        yield GaugeMetricFamily(_PREFIX + name, documentation, value=value)
    for shown in _OF_INPUTS:
        family = shown.family(("input", "topic"))
        for each in status.inputs:
            family.add_metric([each.name, each.topic], shown.value(each))
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
