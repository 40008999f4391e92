"""The whole task: a slice is read from the brokers, decoded, and given back as pieces of files."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import Corrupt
from client.partition_reader import PartitionReader
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.columns import Columns
from loader.errors import DamagedBatch
from loader.landing.landing import Landing
from loader.landing.pieces import MOST_HOURS
from loader.landing.writer_schemas import WriterSchemas
from loader.tables import Slice
from loader.task_spec import NOTHING_SEEN, Seen, TaskSpec
from schemas.parsing import parse

CLIENT_ID: Final = "penstock-loader"


def land(
    piece: Slice, spec: TaskSpec, seen: Seen = NOTHING_SEEN, *, most_hours: int = MOST_HOURS
) -> Iterator[pa.RecordBatch]:
    """The slice's pieces, in the order in which their files need them. Rows of `PIECES`. What has
    been seen before is a duplicate. So many hours have files of their own."""
    columns = Columns(
        parse(spec.reader_schema, strict=False), header=spec.header, with_cluster=spec.with_cluster
    )
    addresses = parse_addresses(",".join(spec.brokers))
    with Brokers(addresses, client_id=CLIENT_ID) as brokers, WriterSchemas(spec) as schemas:
        decoder = BatchDecoder(
            columns,
            schemas,
            topic=piece.topic,
            partition=piece.partition,
            cluster=piece.cluster,
            times=spec.times,
        )
        reader = PartitionReader(
            brokers,
            piece.topic,
            piece.partition,
            piece.first,
            piece.end,
            topic_id=piece.topic_id,
            from_within=piece.from_within,
        )
        landing = Landing(piece, spec, seen, most_hours=most_hours)
        try:
            with closing(reader):
                for batch in reader:
                    yield from landing.take(batch.header, decoder.decode(batch))
        except Corrupt as error:
            first = max(error.first, 0)
            end = first + max(error.count, 1)
            reason = str(error).partition(": ")[2]
            raise DamagedBatch(piece.topic, piece.partition, first, end, reason) from None
        yield from landing.end(reader.next_offset, reader.leader_epoch)
