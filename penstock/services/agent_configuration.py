"""An agent's configuration files: the main one, and those in `inputs_dir`.

Relative paths in `inputs_dir` and an input's `schema` start at the file that names them:
/etc/penstock/agent.yaml with `inputs_dir: agent.d` means /etc/penstock/agent.d. All others, and
those of `--set`, start at the working directory.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Input
from agent.errors import ConfigRejected
from penstock.config.configuration import ConfigurationError, load

T = TypeVar("T")


class InputsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of `inputs_dir`."""

    inputs: tuple[Input, ...]


def load_agent(config: Path | None, overrides: Sequence[str]) -> AgentConfig:
    """Reads an agent's configuration. Raises ConfigurationError."""
    settings = load(AgentConfig, config, overrides)
    if config is None:
        return settings
    folder = config.absolute().parent
    other_key = ""
    if settings.inputs_dir and not any(
        override.startswith("inputs_dir=") for override in overrides
    ):
        other_key = str(folder / settings.inputs_dir)
    return msgspec.structs.replace(
        settings,
        inputs=_beside(folder, settings.inputs),
        inputs_dir=other_key or settings.inputs_dir,
    )


def load_inputs(path: Path) -> tuple[Input, ...]:
    """Reads a file of inputs. Raises ConfigurationError."""
    return _beside(path.absolute().parent, load(InputsFile, path).inputs)


def or_rejected(read: Callable[[], T]) -> T:
    """Returns `read()` for a running program, which expects ConfigRejected in place of
    ConfigurationError."""
    try:
        return read()
    except ConfigurationError as error:
        raise ConfigRejected(str(error)) from None


def _beside(folder: Path, inputs: Sequence[Input]) -> tuple[Input, ...]:
    return tuple(
        msgspec.structs.replace(settings, schema=str(folder / settings.schema))
        if settings.schema
        else settings
        for settings in inputs
    )
