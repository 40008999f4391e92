"""The topic configs that a log needs, as plain values."""

import msgspec

_DAY_MS = 86_400_000


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's topic configs that storage reads, under their own names. −1 is "no limit"."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    delete: bool = True
    compact: bool = False
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    producer_expiration_ms: int = _DAY_MS

    @property
    def max_index_entries(self) -> int:
        """The maximum number of 12-byte entries in a time index; one is reserved for the segment's
        last."""
        return self.segment_index_bytes // 12 - 1
