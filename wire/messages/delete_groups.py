"""DeleteGroups (key 42): consumer groups without members are forgotten, with their offsets."""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time: int = 0
    results: tuple[DeletableGroupResult, ...]


API = Api(
    key=42,
    name="DeleteGroups",
    versions=range(3),
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
