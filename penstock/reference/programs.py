"""The programs that have a configuration, by the name that `check-config` and `keys` know."""

from collections.abc import Mapping
from typing import Final

import msgspec

from agent.config import AgentConfig
from audit.config import AuditConfig
from broker.config import BrokerConfig
from loader.config import LoaderConfig
from registry.config import RegistryConfig

KINDS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "agent": AgentConfig,
    "broker": BrokerConfig,
    "registry": RegistryConfig,
    "loader": LoaderConfig,
    "audit": AuditConfig,
}
