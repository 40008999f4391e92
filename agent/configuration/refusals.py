"""A rejected configuration file. The agent keeps the previous configuration."""

import msgspec


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A file of `inputs_dir`, or the configuration, whose present content was rejected."""

    path: str
    why: str
