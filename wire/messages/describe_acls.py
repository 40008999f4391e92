"""DescribeAcls (key 29): returns the ACLs that match a filter, by pattern.

Not supported: version 0, which has no prefixes. The fields' codes are those of `wire.acls`, as
plain integers, since a peer may send any.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class DescribeAclsRequest(Struct, frozen=True, kw_only=True, gc=False):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclDescription(Struct, frozen=True, kw_only=True, gc=False):
    principal: str
    host: str
    operation: int
    permission_type: int


class DescribeAclsResource(Struct, frozen=True, kw_only=True, gc=False):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: tuple[AclDescription, ...]


class DescribeAclsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resources: tuple[DescribeAclsResource, ...] = ()


API = Api(
    key=29,
    name="DescribeAcls",
    versions=range(1, 4),
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
)
