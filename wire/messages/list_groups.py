"""ListGroups (key 16): the groups that a broker coordinates, from version 4 on also by state.

Left out: nothing.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    states_filter: tuple[str, ...] = ()
    """Empty for groups in any state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
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
