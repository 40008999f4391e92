"""DeleteAcls (key 31): removes all rules that match filters, and returns them.

Not supported: version 0, which has no prefixes. The fields' codes are those of `wire.acls`.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class DeleteAclsFilter(Struct, frozen=True, kw_only=True, gc=False):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DeleteAclsRequest(Struct, frozen=True, kw_only=True, gc=False):
    filters: tuple[DeleteAclsFilter, ...]


class DeleteAclsMatchingAcl(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DeleteAclsFilterResult(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...]


API = Api(
    key=31,
    name="DeleteAcls",
    versions=range(1, 4),
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
)
