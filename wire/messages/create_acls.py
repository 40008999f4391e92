"""CreateAcls (key 30): adds rules, each with its pattern.

Not supported: version 0, which has no prefixes. The fields' codes are those of `wire.acls`.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class AclCreation(Struct, frozen=True, kw_only=True, gc=False):
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAclsRequest(Struct, frozen=True, kw_only=True, gc=False):
    creations: tuple[AclCreation, ...]


class AclCreationResult(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class CreateAclsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results: tuple[AclCreationResult, ...]


API = Api(
    key=30,
    name="CreateAcls",
    versions=range(1, 4),
    request=CreateAclsRequest,
    response=CreateAclsResponse,
)
