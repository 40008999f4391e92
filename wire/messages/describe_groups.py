"""DescribeGroups (key 15): returns state and members of the consumer groups that a broker
coordinates.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api

NOT_ASKED = -(2**31)  # authorized operations were not requested


class DescribeGroupsRequest(Struct, frozen=True, kw_only=True, gc=False):
    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class DescribedGroupMember(Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    """The protocol that the coordinator chose."""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = NOT_ASKED


class DescribeGroupsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    groups: tuple[DescribedGroup, ...]


API = Api(
    key=15,
    name="DescribeGroups",
    versions=range(6),
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
)
