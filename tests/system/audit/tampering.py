"""What nobody should do to a broker's files, and tests do while it is stopped."""

from pathlib import Path

from tests.system.clients.stored import HEADER, StoredBatch, stored_batches


def batch_at(partition_dir: Path, offset: int) -> StoredBatch:
    """The stored batch that begins at that offset."""
    (found,) = (each for each in stored_batches(partition_dir) if each.base_offset == offset)
    return found


def delete(batch: StoredBatch) -> None:
    """Takes it out of its segment, as if it had never been written. What indexes say is dropped."""
    content = batch.file.read_bytes()
    rest = content[: batch.position] + content[batch.position + batch.size :]
    batch.file.write_bytes(rest)
    for suffix in (".index", ".timeindex"):
        batch.file.with_suffix(suffix).unlink(missing_ok=True)


def flip(batch: StoredBatch) -> None:
    """One bit of its last byte, which its CRC covers."""
    assert batch.size > HEADER.size
    content = bytearray(batch.file.read_bytes())
    content[batch.position + batch.size - 1] ^= 1
    batch.file.write_bytes(content)
