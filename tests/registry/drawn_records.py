"""Records of the registry's topic for hypothesis, with few subjects so that records collide."""

from hypothesis import strategies as st

from registry.schemas_topic.log_records import (
    ClearSubjectRecord,
    DeleteSubjectRecord,
    Record,
    SchemaRecord,
)
from registry.schemas_topic.values import Version

SUBJECTS = ("a", "b", "c")
TEXTS = {1: '"int"', 2: '"long"', 3: '"string"', 4: '"bytes"'}


def a_version(subject: str, number: int, schema_id: int, *, deleted: bool = False) -> Version:
    return Version(
        subject=subject, version=number, id=schema_id, text=TEXTS[schema_id], deleted=deleted
    )


def registered(subject: str, number: int, schema_id: int, *, deleted: bool = False) -> Record:
    return SchemaRecord(subject, number, a_version(subject, number, schema_id, deleted=deleted))


subjects = st.sampled_from(SUBJECTS)
numbers = st.integers(1, 4)
records = st.one_of(
    st.builds(registered, subjects, numbers, st.sampled_from(sorted(TEXTS)), deleted=st.booleans()),
    st.builds(SchemaRecord, subjects, numbers, st.none()),
    st.builds(DeleteSubjectRecord, subjects, numbers),
    st.builds(ClearSubjectRecord, st.none() | subjects),
)
