"""Heads files: for each agent, the newest signed statement on which certificates of hours rest.

    _penstock/~heads/{time}-{beginning of its SHA-256}.json

A head is an entry of the ledger with heartbeats, byte for byte, and its proof (proofs.py). It says
up to when nothing of its agent is missing; and through the chain, its signature covers all earlier
entries of the journal. An agent without a head is named with the reason: the verdict did not wait
for it, or could not ask it for a signature.

Rule 1: a heads file has all agents of one cluster that the audit knows, whatever they ship to. So
        one file serves all hours and tables that a load closes.
Rule 2: its name and its digest are in each certificate that rests on it. It is never changed.
Rule 3: nothing in it has to be believed but what an agent has signed, and which agents there are.

Pure.
"""

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple, Self

import msgspec

from ground.known_types import known_type
from ground.signatures.keys import PublicKey
from ledger.proofs import Proof, digest_of
from ledger.source_ids import journal_id
from schemas.definitions.types import Array, Enum, Primitive, Record, Type, Union
from schemas.envelope import Decoder, schema_id_of
from schemas.errors import BadMessage, SchemaError
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import AvroSchema, parse

FOLDER: Final = "_penstock/~heads"  # no table has this name
FORMAT: Final = "https://penstock.dev/heads/v1"
MOST_BYTES: Final = 64 * 1024 * 1024  # of a file
KEPT_MILLIS: Final = 31 * 86_400_000  # that an audit knows an agent, at least, after its last entry

_AGENT: Final = "agent"
_PATH: Final = re.compile(rf"{FOLDER}/\d{{8}}T\d{{6}}Z-([0-9a-f]{{16}})\.json", re.ASCII)
_NAMED_LETTERS: Final = 16  # of the digest, in the name


class BadHeads(Exception):
    """The content is not a heads file; the message continues `it is`."""


class BadHead(Exception):
    """A head does not prove what its file says; the message continues `the head of …`."""


class Reason(StrEnum):
    """Why an agent has no head."""

    RETIRED = "retired"  # by an operator
    SILENT = "silent"  # not heard for so long that no hour waits for it
    UNSIGNED = "unsigned"  # its journal has no key: a release before signatures
    TOO_LARGE = "too large"  # the entry of its newest heartbeat
    UNKNOWN = "unknown"  # no signed heartbeat was read yet


class _Json(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """JSON whose names are written as in certificates, with bytes in base64."""


class Head(_Json, frozen=True, kw_only=True):
    """The newest heartbeat of one agent."""

    agent: str  # its journal
    host: str
    key: bytes  # as DER
    entry: int  # its number in the journal
    until: str  # nothing before this time is missing, in any topic that it names
    topics: int  # what the agent ships to: an index of `topicSets`
    value: bytes  # of the record
    proof: bytes  # the value of the record's header


class Absent(_Json, frozen=True, kw_only=True):
    """An agent without a head."""

    agent: str
    host: str
    topics: int
    reason: Reason
    words: str = ""  # of the operator who has retired it
    heard: str = ""  # its last entry


class Heads(_Json, frozen=True, kw_only=True):
    """The content of a heads file."""

    format: str = FORMAT
    cluster: str
    made_at: str
    schemas: dict[str, str]  # of the entries, by the ids in them
    topic_sets: tuple[tuple[str, ...], ...]
    heads: tuple[Head, ...]  # by host
    absent: tuple[Absent, ...] = ()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Raises BadHeads."""
        try:
            heads = msgspec.json.decode(content, type=known_type(cls))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadHeads(f"no heads file: {error}") from None
        if heads.format != FORMAT:
            raise BadHeads(f"of the format {heads.format[:100]!r}, not {FORMAT!r}")
        sets = range(len(heads.topic_sets))
        agents = heads.agents
        if any(agent.topics not in sets for agent in agents):
            raise BadHeads("no heads file: an agent has topics that are not in it")
        if len({agent.agent for agent in agents}) < len(agents):
            raise BadHeads("no heads file: it has an agent twice")
        return heads

    @property
    def agents(self) -> tuple[Head | Absent, ...]:
        return (*self.heads, *self.absent)

    @property
    def encoded(self) -> bytes:
        content = msgspec.to_builtins(self, builtin_types=(bytes,))
        return msgspec.json.encode({"format": self.format, **content})

    def ships(self, agent: Head | Absent, topic: str) -> bool:
        return topic in self.topic_sets[agent.topics]


def sha256_of(content: bytes) -> str:
    """Returns the digest of a heads file."""
    return hashlib.sha256(content).hexdigest()


def path_of(made_at: str, sha256: str) -> str:
    """Returns the path of a heads file below the root of the tables."""
    time = made_at.replace("-", "").replace(":", "")
    return f"{FOLDER}/{time}-{sha256[:_NAMED_LETTERS]}.json"


def is_path_of(path: str, sha256: str) -> bool:
    """Whether a heads file of this digest may have this path."""
    match = _PATH.fullmatch(path)
    return match is not None and match[1] == sha256[:_NAMED_LETTERS]


class Heartbeat(NamedTuple):
    """A heartbeat in an entry: about these topics, or about all if there are none."""

    until: int
    topics: frozenset[str]


class HeadEntry(msgspec.Struct, frozen=True):
    """What the entry of a head says. Times are in milliseconds."""

    journal: str
    host: str
    seq: int
    time: int
    heartbeats: tuple[Heartbeat, ...]

    @property
    def until(self) -> int:
        """The time before which nothing is missing in any topic with a time."""
        return min((beat.until for beat in self.heartbeats if beat.until > 0), default=0)

    def until_in(self, topic: str) -> int:
        """The time before which nothing of a topic is missing. An entry that names topics names
        all: the agent has nothing of the others, up to the times of those that it names."""
        in_topic = [beat.until for beat in self.heartbeats if topic in beat.topics]
        in_all = [beat.until for beat in self.heartbeats if not beat.topics]
        return min(in_topic or in_all or [beat.until for beat in self.heartbeats], default=0)

    def names(self, topic: str) -> bool:
        return any(topic in beat.topics for beat in self.heartbeats)


class HeadReader:
    """Reads the entries of heads. For one thread."""

    def __init__(self, schemas: dict[int, AvroSchema]) -> None:
        self._decoder = Decoder(schemas.get, built_in(LEDGER))

    @classmethod
    def of(cls, heads: Heads) -> Self:
        """Returns the reader for the entries of a heads file. Raises BadHeads if its schemas are
        not those of ledger entries."""
        schemas: dict[int, AvroSchema] = {}
        for number, text in heads.schemas.items():
            try:
                schema = schemas[int(number)] = parse(text)
            except (SchemaError, ValueError, RecursionError) as error:
                raise BadHeads(f"a file with the invalid schema {number[:20]}: {error}") from None
            if not is_of_ledger(schema):
                raise BadHeads(f"a file whose schema {number[:20]} is not one of the ledger")
        return cls(schemas)

    def read(self, value: bytes) -> HeadEntry:
        """Raises BadHead."""
        try:
            entry = self._decoder.decode(value)
        except BadMessage as error:
            raise BadHead(f"has no entry of the ledger: {error}") from None
        header = entry["header"]
        if entry["tier"] != _AGENT:
            raise BadHead(f"has an entry of the tier {entry['tier']}")
        return HeadEntry(
            journal=header["source"],
            host=header["host"],
            seq=header["seq"],
            time=header["time"],
            heartbeats=tuple(
                Heartbeat(beat["until"], frozenset(beat["topics"])) for beat in entry["heartbeats"]
            ),
        )


def checked_entry(head: Head, reader: HeadReader) -> HeadEntry:
    """Returns the entry of a head, which its agent has signed. Raises BadHead."""
    key = PublicKey(head.key[-32:])
    if key.der != head.key:
        raise BadHead("has no Ed25519 key")
    proof = Proof.decode(head.proof)
    if proof is None or not proof.holds(key, digest_of(head.value)):
        raise BadHead("is not signed with the key of its journal")
    if proof.key is not None and proof.key != key:
        raise BadHead("is signed with a proof of another key")
    entry = reader.read(head.value)
    if (entry.journal, entry.host, entry.seq) != (head.agent, head.host, head.entry):
        raise BadHead(f"is entry {entry.seq} of {entry.journal} on {entry.host}")
    if not entry.heartbeats:
        raise BadHead("has no heartbeat")
    return entry


def is_named_for(agent: str, key: bytes) -> bool:
    """Whether a journal has the id that its key, given as DER, makes."""
    return journal_id(PublicKey(key[-32:])) == agent


def schema_ids(values: Iterable[bytes]) -> set[int]:
    """Returns the ids of the schemas of entries."""
    return {schema_id_of(value) for value in values}


def is_of_ledger(schema: AvroSchema) -> bool:
    """Whether a schema is a version of the ledger's: versions differ only by fields at the ends of
    records, and by symbols at the ends of enums. So no other reading of the same bytes can be
    passed off with a schema."""
    try:
        return schema.full_name == LEDGER and _is_version(schema.type, built_in(LEDGER).type)
    except RecursionError:
        return False


def _is_version(one: Type, other: Type) -> bool:
    if isinstance(one, Record) and isinstance(other, Record):
        pairs = zip(one.fields, other.fields, strict=False)
        return all(
            left.name == right.name and _is_version(left.type, right.type) for left, right in pairs
        )
    if isinstance(one, Array) and isinstance(other, Array):
        return _is_version(one.items, other.items)
    if isinstance(one, Union) and isinstance(other, Union):
        are_as_many = len(one.branches) == len(other.branches)
        return are_as_many and all(map(_is_version, one.branches, other.branches))
    if isinstance(one, Enum) and isinstance(other, Enum):
        shared = min(len(one.symbols), len(other.symbols))
        return one.symbols[:shared] == other.symbols[:shared]
    if isinstance(one, Primitive) and isinstance(other, Primitive):
        unit, other_unit = one.props.get("logicalType"), other.props.get("logicalType")
        return (one.kind, unit) == (other.kind, other_unit)
    return False
