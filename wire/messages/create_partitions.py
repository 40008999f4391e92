"""CreatePartitions (key 37): adds partitions to existing topics."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class CreatePartitionsAssignment(Struct, frozen=True, kw_only=True, gc=False):
    broker_ids: tuple[int, ...] = ()


class CreatePartitionsTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: int
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class CreatePartitionsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results: tuple[CreatePartitionsTopicResult, ...]


API = Api(
    key=37,
    name="CreatePartitions",
    versions=range(4),
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
)
