"""Turns events that their topic refuses permanently into dead letters.

Dead letters of files are numbered when files are read, ahead of shipping. So the letter of a
refused event has a separate source, created by this process and numbered here; `reason` names the
event. `raw` is the event's encoded message, which can be decoded with the schema that it names.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from agent.accounting.accounts import bytes_of_events
from agent.accounting.runs import Run, SourceId
from agent.encoding.topic_schemas.values import TopicSchema
from agent.shipping.rebuilding import event_header
from ground.printable import path_text
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import DEAD_LETTER, built_in
from wire.record_batches.records import Record

MOST_RAW: Final = 64 * 1024
LEAST_RAW: Final = 64
UNKNOWN: Final = -1


class DeadLetter(msgspec.Struct, frozen=True):
    """The record of a dead letter, and its run."""

    record: Record
    run: Run


class RefusedLetters:
    """Makes this process's dead letters, numbered under a source of their own."""

    def __init__(self, new_source: Callable[[], SourceId], path_of: Callable[[str], str]) -> None:
        self._new_source = new_source
        self._path_of = path_of
        self._source: SourceId | None = None
        self._seq = 0

    def letter(
        self, event: Record, topic: str, reason: str, schema: TopicSchema, runs: Sequence[Run]
    ) -> DeadLetter:
        """A dead letter of an event. `runs` are those of the event alone, if known. `counted`
        confirms the letter."""
        assert event.value is not None
        header = event_header(event.value)
        runs = [run for run in runs if run.events]
        self._source = self._source or self._new_source()
        value = Encoder(schema.schema, schema.id).encode(
            {
                "header": {**header._asdict(), "source": self._source, "seq": self._seq},
                "topic": topic,
                "reason": f"{reason} (event {header.seq} of source {header.source})",
                "raw": event.value[:MOST_RAW],
                "offset": header.position,
                "path": path_text(self._path_of(header.source)),
                "size": bytes_of_events(runs[0]) if runs else UNKNOWN,
            }
        )
        run = Run(
            source=self._source,
            seq=self._seq,
            events=1,
            position=header.position,
            end_position=runs[0].end_position if runs else UNKNOWN,
            lines=runs[0].lines if runs else 1,
        )
        return DeadLetter(Record(0, event.timestamp, None, value), run)

    def counted(self) -> None:
        """Notes that the letter was journalled."""
        self._seq += 1


def shortened(letter: Record, schema: TopicSchema) -> Record | None:
    """A dead letter with a quarter of its raw bytes; None if too few are left."""
    assert letter.value is not None
    value: dict[str, Any] = Decoder(lambda _: built_in(DEAD_LETTER)).decode(letter.value)
    raw_text = value["raw"]
    if len(raw_text) < LEAST_RAW:
        return None
    size = value["size"] if value["size"] >= 0 else len(raw_text)
    value |= {"raw": raw_text[: len(raw_text) // 4], "size": size}
    return letter._replace(value=Encoder(schema.schema, schema.id).encode(value))
