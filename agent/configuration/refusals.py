"""A refusal of configuration: the agent rejected a file, and goes on with what it had."""

import msgspec


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A file of `inputs_dir`, or the configuration, whose present content was rejected."""

    path: str
    why: str
