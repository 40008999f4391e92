"""The whole task: a slice is read from the brokers, decoded, and given back as pieces of files."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import Corrupt, OffsetsMissing
from client.fetcher import Batch
from client.partition_reader import Instead, PartitionReader, PassedOver
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
                for each in reader.everything():
                    given_up = _is_missing(each) and not reader.is_compacted()
                    if given_up and not spec.accept_gap:
                        raise _missing(piece, each)
                    if isinstance(each, PassedOver):
                        landing.nothing(each, given_up=given_up)
                        continue
                    decoded = decoder.decode(each)
                    yield from landing.take(each.header, decoded, given_up=given_up)
        except Corrupt as error:
            first = max(error.first, 0)
            end = first + max(error.count, 1)
            reason = str(error).partition(": ")[2]
            raise DamagedBatch(piece.topic, piece.partition, first, end, reason) from None
        yield from landing.end(reader.next_offset, reader.leader_epoch)


def _is_missing(each: Batch | PassedOver) -> bool:
    """Whether there is something between records that is none: as compaction leaves it."""
    if isinstance(each, PassedOver):
        return each.what in {Instead.HOLE, Instead.EMPTIED}
    return each.header.record_count <= each.header.last_offset_delta


def _missing(piece: Slice, each: Batch | PassedOver) -> OffsetsMissing:
    """Only the log of a compacted topic may have less than its offsets."""
    if isinstance(each, PassedOver):
        first, end, what = each.first, each.end, "there is nothing between what lies around them"
    else:
        header = each.header
        first, end = header.base_offset, header.next_offset
        what = f"only {header.record_count:,} records are left of the batch"
    return OffsetsMissing(
        piece.log,
        first,
        end,
        f"{what}, and the topic is not compacted. To load what is there, and write down that these"
        " are missing: --accept-gap",
    )
