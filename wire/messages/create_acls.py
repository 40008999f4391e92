"""CreateAcls (key 30): rules that are added, each with the pattern that it stands on.

Left out: version 0, which knows no prefixes. The fields' codes are those of `wire.acls`.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest:
    creations: tuple[AclCreation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult:
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse:
    throttle_time: int = 0
    results: tuple[AclCreationResult, ...]


API = Api(
    key=30,
    name="CreateAcls",
    versions=range(1, 4),
    request=CreateAclsRequest,
    response=CreateAclsResponse,
)
