"""DescribeCluster (key 60), versions 0–1.

The cluster's id, its controller and the registered brokers, which need no right; and, if requested,
the operations that the client may do on the cluster, provided that it may describe it.

Not here: KRaft controllers as endpoints.
"""

import msgspec

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from cluster.view import ClusterView
from wire.errors import ErrorCode
from wire.messages.describe_cluster import (
    BROKERS,
    NOT_ASKED,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeClusterRequest, caller: Caller
) -> DescribeClusterResponse:
    snapshot = needs.cluster.snapshot
    cluster_id = snapshot.cluster_id or ""
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.unsupported_endpoint_type,
            error_message=f"endpoint type {request.endpoint_type} is not supported",
            cluster_id=cluster_id,
            brokers=(),
        )
    return DescribeClusterResponse(
        cluster_id=cluster_id,
        controller_id=-1 if snapshot.controller_id is None else snapshot.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker.broker_id, host=address[0], port=address[1], rack=broker.rack
            )
            for broker in snapshot.brokers.values()
            if (address := broker.reached_by(caller.listener))
        ),
        cluster_authorized_operations=needs.authorization.of(caller).operations_on_cluster()
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )
