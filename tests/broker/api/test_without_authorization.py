"""A broker without `authorization:`: everybody may do everything, and nobody makes ACLs."""

from broker.permissions import bits
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.acls import OPERATIONS_ON, Operation, PatternType, Permission, ResourceType
from wire.errors import ErrorCode
from wire.messages import create_acls, delete_acls, describe_acls, metadata
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FILTER = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
ACL = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="views",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


def test_who_makes_an_acl_is_told_that_it_would_not_hold(
    client: RawClient, running: RunningBroker
) -> None:
    described = client.ask(describe_acls.API, 3, DescribeAclsRequest(**FILTER))  # type: ignore[arg-type]
    assert described.error_code is ErrorCode.security_disabled
    assert "authorization" in (described.error_message or "")
    created = client.ask(create_acls.API, 3, CreateAclsRequest(creations=(ACL, ACL)))
    assert [each.error_code for each in created.results] == [ErrorCode.security_disabled] * 2
    filters = (DeleteAclsFilter(**FILTER),)  # type: ignore[arg-type]
    deleted = client.ask(delete_acls.API, 3, DeleteAclsRequest(filters=filters))
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.security_disabled]
    assert running.broker.cluster.snapshot.acls == {}


def test_everybody_is_told_every_operation(client: RawClient) -> None:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="no-such-topic"),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = client.ask(metadata.API, 10, request)
    on_topic, on_cluster = (
        bits(OPERATIONS_ON[kind]) for kind in (ResourceType.TOPIC, ResourceType.CLUSTER)
    )
    assert answer.topics[0].topic_authorized_operations == on_topic
    assert answer.cluster_authorized_operations == on_cluster
