"""A member of a consumer group that says each request itself, in versions of its choice."""

from typing import TypeVar

from harness.waiting import wait_until
from tests.broker.api.running_broker import RawClient
from wire.codec import Api
from wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from wire.errors import ErrorCode
from wire.messages import (
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Request = TypeVar("Request")
Response = TypeVar("Response")

NEWEST = 1000
_LATER = {ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator}
_WITHIN = 60.0


class GroupMember:
    """Speaks the `nth` of the versions that there are of each API, or the last one."""

    def __init__(self, client: RawClient, group: str, protocol: str, nth: int = NEWEST) -> None:
        self.group = group
        self.member_id = join_group.UNKNOWN_MEMBER_ID
        self.generation = -1
        self._client = client
        self._protocol = protocol
        self._nth = nth
        wait_until(self._is_coordinated, within=_WITHIN, what=f"{group} has a coordinator")

    def version(self, api: Api[Request, Response]) -> int:
        return api.versions[min(self._nth, len(api.versions) - 1)]

    def ask(self, api: Api[Request, Response], request: Request) -> Response:
        return self._client.ask(api, self.version(api), request)

    def join(self, subscription: Subscription) -> JoinGroupResponse:
        """The answer of the generation that it now belongs to."""
        answers: list[JoinGroupResponse] = []

        def joined() -> bool:
            answers.append(self._ask_to_join(subscription))
            return answers[-1].error_code not in _LATER

        wait_until(joined, within=_WITHIN, what=f"{self.group} can be joined")
        answer = answers[-1]
        if answer.error_code is ErrorCode.member_id_required:
            assert self.version(join_group.API) >= 4
            self.member_id = answer.member_id
            answer = self._ask_to_join(subscription)
        assert answer.error_code is ErrorCode.none
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignments: dict[str, Assignment] | None = None) -> Assignment:
        """Hand in what each member is to do, as the leader, and be told one's own part."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(its))
                for member, its in (assignments or {}).items()
            ),
        )
        answer = self.ask(sync_group.API, request)
        assert answer.error_code is ErrorCode.none
        if self.version(sync_group.API) >= 5:
            assert (answer.protocol_type, answer.protocol_name) == (PROTOCOL_TYPE, self._protocol)
        return read_assignment(answer.assignment)

    def beat(self, generation: int | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
        )
        return self.ask(heartbeat.API, request).error_code

    def leave(self) -> LeaveGroupResponse:
        leaves = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.group, members=(leaves,))
        return self.ask(leave_group.API, request)

    def describe(self) -> DescribedGroup:
        answer = self.ask(describe_groups.API, DescribeGroupsRequest(groups=(self.group,)))
        (group,) = answer.groups
        assert (group.error_code, group.group_id) == (ErrorCode.none, self.group)
        return group

    def _ask_to_join(self, subscription: Subscription) -> JoinGroupResponse:
        brings = JoinGroupRequestProtocol(
            name=self._protocol, metadata=write_subscription(subscription)
        )
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout=120_000,  # longer than a test waits for others
            rebalance_timeout=20_000,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(brings,),
            reason="a test",
        )
        return self.ask(join_group.API, request)

    def _is_coordinated(self) -> bool:
        """Kafka makes its topic of offsets when it is asked for the first time."""
        request = FindCoordinatorRequest(key=self.group)
        answer = self._client.ask(find_coordinator.API, 2, request)
        return answer.error_code is ErrorCode.none
