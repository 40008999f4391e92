"""The description of rows, and everything that tasks need to read them. It is determined once, when
the query is planned, and sent with every task as text.
"""

from typing import Final

import msgspec
import pyarrow as pa

from client.connection.brokers import Brokers
from ground.known_types import known_type
from loader.config import HeaderColumns
from loader.decoding.columns import Columns
from loader.decoding.spark_types import spark_json
from loader.errors import NoSchema
from loader.spark.data_source.options import DeadRecords, SourceOptions
from loader.spark.data_source.topic_queries import topics_of
from schemas.compatibility import incompatibilities
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema, parse
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress

CLIENT_ID: Final = "penstock-spark"
DEAD: Final = "_dead"
DEAD_TYPE: Final = pa.struct(
    [
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("timestamp", pa.int64()),  # in milliseconds, any value
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    brokers: str
    registry: RegistryAddress
    reader_schema: str  # Avro without references
    header: HeaderColumns
    dead: DeadRecords
    fail_on_data_loss: bool
    writer_schemas: dict[int, str]  # by id: known schemas
    wanted: tuple[str, ...] | None = None  # columns; None: all

    def packed(self) -> str:
        return msgspec.json.encode(self).decode()

    @property
    def columns(self) -> Columns:
        return Columns(
            parse(self.reader_schema, strict=False), header=self.header, with_cluster=False
        )


def unpacked(text: str) -> Description:
    return msgspec.json.decode(text, type=known_type(Description))


def row_schema(description: Description, columns: Columns) -> pa.Schema:
    """The schema of all columns, requested or not."""
    fields = list(columns.arrow)
    if description.dead is DeadRecords.KEEP:
        if DEAD in {name.lower() for name in columns.arrow.names}:
            raise NoSchema(f"option `dead`, 'keep': the schema already has a field {DEAD}")
        fields.append(pa.field(DEAD, DEAD_TYPE))
    return pa.schema(fields)


def row_schema_for_spark(description: Description) -> str:
    return spark_json(row_schema(description, description.columns))


def describe(options: SourceOptions) -> Description:
    """Describes the rows, after querying the registry, and the cluster if topics are given by a
    pattern.

    Rows have the latest schema of the first topic, which must be able to read those of the others.
    Raises NoSchema, ClientError, or RegistryError.
    """
    with RegistryClient(options.registry) as registry:
        if options.subject is not None:
            return _description(options, _latest(registry, options.subject, options))
        topics = _topics(options)
        schemas = [_latest(registry, f"{topic}-value", options) for topic in topics]
    (_, first_schema), *other_schemas = schemas
    for topic, (_, schema) in zip(topics[1:], other_schemas, strict=True):
        if differences := incompatibilities(first_schema.type, schema.type):
            raise NoSchema(
                f"topic {topic} cannot be read with the schema of topic {topics[0]}: "
                f"{differences[0].path}: {differences[0].detail}. "
                "Read them separately, or name a schema that can read all: option schemaSubject"
            )
    return _description(options, *schemas)


def _topics(options: SourceOptions) -> tuple[str, ...]:
    if options.pattern is None:
        return options.topics
    with Brokers(options.bootstrap, client_id=CLIENT_ID) as brokers:
        topics = topics_of(brokers, options)
    if not topics:
        raise NoSchema(f"no topic matches option `topicPattern`, {options.pattern!r}")
    return topics


def _description(options: SourceOptions, *schemas: tuple[int, AvroSchema]) -> Description:
    return Description(
        brokers=options.brokers,
        registry=options.registry,
        reader_schema=schemas[0][1].resolved_text,
        header=options.header,
        dead=options.dead,
        fail_on_data_loss=options.fail_on_data_loss,
        writer_schemas={schema_id: schema.resolved_text for schema_id, schema in schemas},
    )


def _latest(
    registry: RegistryClient, subject: str, options: SourceOptions
) -> tuple[int, AvroSchema]:
    latest_schema = registry.latest(subject)
    if latest_schema is None:
        raise NoSchema(
            f"the registry at {options.registry} has no subject {subject}: "
            "register a schema, or name another subject with option schemaSubject"
        )
    try:
        return latest_schema.id, registry.resolved(latest_schema)
    except InvalidSchema as error:
        raise NoSchema(f"{subject}, version {latest_schema.version}: {error}") from None
