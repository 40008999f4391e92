"""DescribeClientQuotas (key 48): returns the quotas of entities that match a filter."""

from enum import IntEnum

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class QuotaMatch(IntEnum):
    """A filter's condition on one part of an entity."""

    NAME = 0
    DEFAULT = 1
    ANY = 2


class ComponentData(Struct, frozen=True, kw_only=True, gc=False):
    entity_type: str
    match_type: int  # a QuotaMatch; other values are the peer's error
    match: str | None


class DescribeClientQuotasRequest(Struct, frozen=True, kw_only=True, gc=False):
    components: tuple[ComponentData, ...]
    strict: bool = False


class EntityData(Struct, frozen=True, kw_only=True, gc=False):
    entity_type: str
    entity_name: str | None


class ValueData(Struct, frozen=True, kw_only=True, gc=False):
    key: str
    value: float


class EntryData(Struct, frozen=True, kw_only=True, gc=False):
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


class DescribeClientQuotasResponse(Struct, frozen=True, kw_only=True, gc=False):
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
