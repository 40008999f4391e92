"""The properties of a topic and of a source by which a packer encodes events."""

import msgspec

from agent.accounting.runs import SourceId
from agent.configuration.config import Batches
from agent.encoding.batches.framing import Frame
from ground.printable import path_text
from ledger.names import DEAD_SUFFIX
from schemas.bodies.primitives import sized
from schemas.envelope import MOST_ID
from wire.record_batches.batch import HEADER_SIZE

__all__ = ["SourceHeader", "TopicPlan"]


class TopicPlan(msgspec.Struct, frozen=True):
    """One topic and its dead letters.

    plain             the schema is that of plain text: events are messages, the path is added
    with_path         the path is added before the fields
    header_rest       header fields of a later version, for plain events
                      (`TailEncoder.header_rest`; other bodies include them)
    partition         where this agent's events go, out of the `partitions` that it knew at first
    most_batch_bytes  the topic's limit for a finished batch
    """

    topic: str
    schema_id: int
    dead_schema_id: int
    host: str
    plain: bool = True
    with_path: bool = False
    header_rest: bytes = b""
    partition: int = 0
    partitions: int = 1
    dead_partition: int = 0
    window_millis: int = 60_000
    batches: Batches = msgspec.field(default_factory=Batches)
    most_batch_bytes: int = 1_000_000
    most_dead_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.schema_id <= MOST_ID or not 0 <= self.dead_schema_id <= MOST_ID:
            raise ValueError("a schema id has 31 bits")
        if self.partitions < 1 or min(self.most_batch_bytes, self.most_dead_bytes) <= HEADER_SIZE:
            raise ValueError(
                f"{self.topic} has no partitions, or its batch limit is too small for a record"
            )

    @property
    def dead_topic(self) -> str:
        return self.topic + DEAD_SUFFIX


class SourceHeader(msgspec.Struct, frozen=True):
    """The properties of a source in its events. `path` is the path at which it was first opened.

    `partition_by` is agent, source, random or field:NAME, as configured; `input` is its label.
    """

    id: SourceId
    path: str
    app: str
    partition_by: str = "agent"
    input: str = ""

    def identity(self, host: str) -> bytes:
        return b"".join(sized(part.encode()) for part in (host, self.app, self.id))

    def frame(self, plan: TopicPlan) -> Frame:
        has_path = plan.plain or plan.with_path
        before_body = plan.header_rest + sized(path_bytes(self.path)) if has_path else b""
        head = b"\0" + plan.schema_id.to_bytes(4, "big")
        return Frame(head, self.identity(plan.host), before_body, plan.plain)

    def dead_frame(self, plan: TopicPlan) -> Frame:
        head = b"\0" + plan.dead_schema_id.to_bytes(4, "big")
        return Frame(head, self.identity(plan.host), b"", plain=False)


def path_bytes(path: str) -> bytes:
    """The path as UTF-8; invalid bytes are replaced."""
    return path_text(path).encode()
