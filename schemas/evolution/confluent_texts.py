"""Describes incompatibilities in the words of Confluent's registry, for `verbose=true` and refused
schemas.

Tools show these lines and some parse them, so they match Confluent's exactly. `findings` limits
their number and length; of the old schema, Confluent shows the first ten thousand characters.
"""

from typing import Final

from schemas.evolution.findings import Found, Incompatibility, IncompatibilityKind, written_out
from schemas.parsing import AvroSchema

__all__ = ["old_schema", "written_as_confluent"]

_LONGEST_SCHEMA: Final = 10 * 1024

# Filled with path and detail; reader and writer are "new" or "old".
_DESCRIPTIONS: Final = {
    IncompatibilityKind.FIXED_SIZE_MISMATCH: (
        "The size of FIXED type field at path '{path}' in the {reader} schema does not match with "
        "the {writer} schema"
    ),
    IncompatibilityKind.TYPE_MISMATCH: (
        "The type (path '{path}') of a field in the {reader} schema does not match with the "
        "{writer} schema"
    ),
    IncompatibilityKind.NAME_MISMATCH: "The name of the schema has changed (path '{path}')",
    IncompatibilityKind.MISSING_ENUM_SYMBOLS: (
        "The {reader} schema is missing enum symbols '{detail}' at path '{path}' in the {writer} "
        "schema"
    ),
    IncompatibilityKind.MISSING_UNION_BRANCH: (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the "
        "{writer} schema"
    ),
    IncompatibilityKind.READER_FIELD_MISSING_DEFAULT_VALUE: (
        "The field '{detail}' at path '{path}' in the {reader} schema has no default value and is "
        "missing in the {writer} schema"
    ),
    IncompatibilityKind.NOT_JUDGED: (
        "The {reader} schema could not be compared with the {writer} schema"
    ),
    IncompatibilityKind.MORE: (
        "There is more that does not match between the {reader} and the {writer} schema"
    ),
}


def written_as_confluent(findings: Found, *, new_reads: bool) -> list[str]:
    """Returns one line per incompatibility."""
    reader, writer = ("new", "old") if new_reads else ("old", "new")
    return [_line(finding, reader, writer) for finding in written_out(findings)]


def old_schema(version: int, old: AvroSchema) -> list[str]:
    """Returns the lines that show the old schema of a comparison."""
    text = old.text
    quoted_text = f"'{text}'"
    if not text.isascii():
        # Java counts UTF-16 units: two for characters beyond the first 65,536.
        units = text.encode("utf-16-le", "surrogatepass")
        if len(units) > 2 * _LONGEST_SCHEMA:
            cut = units[: 2 * _LONGEST_SCHEMA].decode("utf-16-le", "ignore")
            quoted_text = f"<truncated> '{cut}...'"
    elif len(text) > _LONGEST_SCHEMA:
        quoted_text = f"<truncated> '{text[:_LONGEST_SCHEMA]}...'"
    return [f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: {quoted_text}}}"]


def _line(finding: Incompatibility, reader: str, writer: str) -> str:
    if finding.kind == IncompatibilityKind.AMBIGUOUS_FIELD:
        return f"Unexpected exception during compatibility check: {finding.detail}"
    kind, detail = IncompatibilityKind(finding.kind), finding.detail
    description = _DESCRIPTIONS[kind].format(
        path=finding.path, detail=detail, reader=reader, writer=writer
    )
    return f"{{errorType:'{kind}', description:'{description}', additionalInfo:'{detail}'}}"
