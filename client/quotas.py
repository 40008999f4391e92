"""What is done to quotas: list them, set and remove them, by user, client id and address."""

from collections.abc import Mapping

import msgspec

from client.brokers import Brokers
from client.errors import check
from client.rights import on_cluster
from wire.acls import Operation
from wire.messages import alter_client_quotas, describe_client_quotas
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData


class EntityQuotas(msgspec.Struct, frozen=True):
    """`entity` says which types it has, and whose; None stands for all others."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]


def quotas(brokers: Brokers) -> tuple[EntityQuotas, ...]:
    request = DescribeClientQuotasRequest(components=())
    answer = brokers.call_any(describe_client_quotas.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE_CONFIGS)
    check(answer.error_code, "quotas", answer.error_message, needs=needs)
    return tuple(
        EntityQuotas(
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    )


def alter_quotas(
    brokers: Brokers, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
) -> None:
    """None: that quota goes."""
    wanted = EntryData(
        entity=tuple(
            EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ),
        ops=tuple(
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ),
    )
    request = AlterClientQuotasRequest(entries=(wanted,))
    needs = on_cluster(brokers.who, Operation.ALTER_CONFIGS)
    for each in brokers.call_controller(alter_client_quotas.API, request).entries:
        check(each.error_code, "quotas", each.error_message, needs=needs)
