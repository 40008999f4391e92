"""Entries of the ledger as messages, as far as shipping must look into them."""

from schemas.envelope import Decoder, Encoder, split
from schemas.event_schemas import LEDGER, built_in
from wire.records import Record


def without_statements(record: Record) -> Record | None:
    """The same entry with nothing in its lists; None if there is nothing in them."""
    message = record.value or b""
    schema_id, _ = split(message)
    entry = Decoder(lambda _: built_in(LEDGER)).decode(message)
    lists = {name for name, value in entry.items() if isinstance(value, list) and value}
    if not lists:
        return None
    emptied = entry | {name: [] for name in lists}
    return record._replace(value=Encoder(built_in(LEDGER), schema_id).encode(emptied))
