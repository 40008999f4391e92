"""Whether a schema may follow those that a subject has, by the level that is set for it."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from registry.contents import RegistryContents
from registry.data_contracts import properties
from registry.errors import Answered, invalid_schema
from registry.parsed_schemas import SentSchema, stored_schema
from registry.values import Config, Level, SchemaContent, Version
from schemas.compatibility import messages
from schemas.parsing import AvroSchema


def config_in_scope(contents: RegistryContents, subject: str | None) -> Config:
    """What holds for a subject: its own settings over those of all."""
    of_all = contents.config_of_all(subject) or Config()
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


class Question(msgspec.Struct, frozen=True):
    """Whether a schema may follow others: all that is needed to answer it, in whichever thread."""

    level: Level
    new: Callable[[], AvroSchema]
    previous: tuple[tuple[int, Callable[[], AvroSchema]], ...]  # numbers and schemas, oldest first
    size: int  # characters that are to be parsed and compared

    def objections(self) -> list[str]:
        """Why it may not, in Confluent's words; nothing if it may."""
        if self.level is Level.NONE:
            return []
        new = self.new()
        try:
            found = messages(self.level, new, [(number, old()) for number, old in self.previous])
        except Answered as error:
            found = [f"An earlier schema cannot be compared with: {error}"]
        if found:
            found.append(f"{{validateFields: 'false', compatibility: '{self.level.value}'}}")
        return found


def question(
    contents: RegistryContents,
    subject: str,
    content: SchemaContent,
    sent: SentSchema,
    previous: Sequence[Version],
) -> Question:
    """Whether `sent` may follow `previous`, the oldest first, by what is set for the subject."""
    config = config_in_scope(contents, subject)
    level = config.compatibility_level or Level.NONE
    group = config.compatibility_group
    if group is not None:
        own = properties(content.metadata).get(group)
        previous = [each for each in previous if properties(each.metadata).get(group) == own]
    if not level.endswith("_TRANSITIVE"):
        previous = previous[-1:]
    return Question(
        level,
        sent.parsed,
        tuple((each.version, _schema_of(contents, each)) for each in previous),
        sent.sent.size + sum(len(each.text) for each in previous),
    )


def _schema_of(contents: RegistryContents, version: Version) -> Callable[[], AvroSchema]:
    found = stored_schema(contents, version)
    return partial(_none, version.version) if found is None else found.parsed


def _none(number: int) -> AvroSchema:
    raise invalid_schema(f"version {number} is no Avro schema, or refers to none")
