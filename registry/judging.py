"""Whether a schema may follow those that a subject has, by the level that is set for it."""

from collections.abc import Sequence

import msgspec

from registry.contents import Contents
from registry.data_contracts import properties
from registry.parsed_schemas import parse_version
from registry.values import Config, Content, Level, Version
from schemas.compatibility import messages
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema


def config_in_scope(contents: Contents, subject: str | None) -> Config:
    """What holds for a subject: its own settings over those of all."""
    of_all = contents.config(None) or Config()
    own = contents.config(subject) if subject is not None else None
    merged = of_all if own is None else merge(of_all, own)
    if merged.compatibility_level is None:
        return msgspec.structs.replace(merged, compatibility_level=contents.default_level)
    return merged


def merge(under: Config, over: Config) -> Config:
    """What is set in `over`, and from `under` what is not."""
    given = {
        name: getattr(over, name)
        for name in Config.__struct_fields__
        if getattr(over, name) not in (None, msgspec.Raw())
    }
    return msgspec.structs.replace(under, **given)


def objections(
    contents: Contents,
    subject: str,
    content: Content,
    parsed: AvroSchema,
    previous: Sequence[Version],
) -> list[str]:
    """Why the schema may not follow `previous`, oldest first; nothing if it may."""
    config = config_in_scope(contents, subject)
    level = config.compatibility_level or Level.NONE
    if level is Level.NONE:
        return []
    group = config.compatibility_group
    if group is not None:
        own = properties(content.metadata).get(group)
        previous = [each for each in previous if properties(each.metadata).get(group) == own]
    try:
        earlier = [(each.version, parse_version(contents, each)) for each in previous]
    except InvalidSchema as error:
        found = [f"An earlier schema cannot be compared with: {error}"]
    else:
        found = messages(level, parsed, earlier)
    if found:
        found.append(f"{{validateFields: 'false', compatibility: '{level.value}'}}")
    return found
