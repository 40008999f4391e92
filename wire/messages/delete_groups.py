"""DeleteGroups (key 42): deletes consumer groups without members, with their offsets."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class DeleteGroupsRequest(Struct, frozen=True, kw_only=True, gc=False):
    groups_names: tuple[str, ...]


class DeletableGroupResult(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    error_code: ErrorCode = ErrorCode.none


class DeleteGroupsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results: tuple[DeletableGroupResult, ...]


API = Api(
    key=42,
    name="DeleteGroups",
    versions=range(3),
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
