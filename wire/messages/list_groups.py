"""ListGroups (key 16): returns the groups that a broker coordinates; from version 4 on, only those
in given states if requested.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ListGroupsRequest(Struct, frozen=True, kw_only=True, gc=False):
    states_filter: tuple[str, ...] = ()
    """Empty for all states."""


class ListedGroup(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    protocol_type: str
    group_state: str = ""


class ListGroupsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[ListedGroup, ...] = ()


API = Api(
    key=16,
    name="ListGroups",
    versions=range(5),
    request=ListGroupsRequest,
    response=ListGroupsResponse,
)
