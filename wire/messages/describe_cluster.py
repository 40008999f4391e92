"""DescribeCluster (key 60): returns the cluster's id, controller and brokers.

Not supported: KRaft's controllers (`endpoint_type` 2).
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api

NOT_ASKED = -(2**31)  # authorized operations were not requested
BROKERS = 1  # the endpoint type of brokers


class DescribeClusterRequest(Struct, frozen=True, kw_only=True, gc=False):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = BROKERS


class DescribeClusterBroker(Struct, frozen=True, kw_only=True, gc=False):
    broker_id: int
    host: str
    port: int
    rack: str | None = None


class DescribeClusterResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    endpoint_type: int = BROKERS
    cluster_id: str
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int = NOT_ASKED


API = Api(
    key=60,
    name="DescribeCluster",
    versions=range(2),
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
)
