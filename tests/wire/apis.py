"""All APIs that have a module in `wire.messages`, also by key."""

import pkgutil
from importlib import import_module
from typing import Any

import wire.messages
from wire.framing.codec import Api

ALL: list[Api[Any, Any]] = [
    import_module(f"wire.messages.{module.name}").API
    for module in pkgutil.iter_modules(wire.messages.__path__)
]
APIS = {api.key: api for api in ALL}
