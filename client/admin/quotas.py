"""Administers quotas: lists, sets and removes them, by user, client id and IP address."""

from collections.abc import Mapping

import msgspec

from client.connection.brokers import Brokers
from client.errors import check
from client.rights import on_cluster
from wire.acls import Operation
from wire.messages import alter_client_quotas, describe_client_quotas
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData


class EntityQuotas(msgspec.Struct, frozen=True):
    """The quotas of one entity: names by entity type; None stands for the default."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]


def quotas(brokers: Brokers) -> tuple[EntityQuotas, ...]:
    request = DescribeClientQuotasRequest(components=())
    response = brokers.call_any(describe_client_quotas.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE_CONFIGS)
    check(response.error_code, "quotas", response.error_message, needs=needs)
    return tuple(
        EntityQuotas(
            {component.entity_type: component.entity_name for component in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or ()
    )


def alter_quotas(
    brokers: Brokers, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
) -> None:
    """Sets quotas of an entity; None removes one."""
    entry_data = EntryData(
        entity=tuple(
            EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ),
        ops=tuple(
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ),
    )
    request = AlterClientQuotasRequest(entries=(entry_data,))
    needs = on_cluster(brokers.who, Operation.ALTER_CONFIGS)
    for entry in brokers.call_controller(alter_client_quotas.API, request).entries:
        check(entry.error_code, "quotas", entry.error_message, needs=needs)
