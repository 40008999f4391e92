"""DescribeClientQuotas (key 48): which quotas there are, for entities that match a filter."""

from dataclasses import dataclass
from enum import IntEnum

from wire.codec import Api
from wire.errors import ErrorCode


class QuotaMatch(IntEnum):
    """What a filter wants of one part of an entity."""

    NAME = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentData:
    entity_type: str
    match_type: int  # a QuotaMatch; anything else is the peer's mistake
    match: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueData:
    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    entries: tuple[EntryData, ...] | None


API = Api(
    key=48,
    name="DescribeClientQuotas",
    versions=range(2),
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
)
