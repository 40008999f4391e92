"""What kept descriptors are called, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kept.names import KeptName, Kind, file_name, own_name, read_name, with_path
from agent.runs import SourceId

AGENT = "0123456789ABCDEFGHIJ"
OTHER = "ABCDEFGHIJ0123456789"


@given(path=st.binary(max_size=300), source=st.sampled_from(["", "s"]))
def test_there_and_back(path: bytes, source: str) -> None:
    name = file_name(AGENT, (65024, 9994449), SourceId(source))
    kind = Kind.FILE if source else Kind.NEW
    assert read_name(name, AGENT) == KeptName(kind)
    longer = with_path(name, path.decode(errors="surrogateescape"))
    # What systemd takes for a name.
    assert len(longer) <= 255
    assert all(" " < character < "\x7f" and character != ":" for character in longer)
    found = read_name(longer, AGENT)
    assert found is not None
    assert found.path.encode(errors="surrogateescape") == (path if longer != name else b"")
    assert read_name(longer, OTHER) is None


@pytest.mark.parametrize("name", ["", "stored", "a.b.c", f"{AGENT[:12]}.other.1-2", "..", "."])
def test_what_others_have_stored(name: str) -> None:
    assert read_name(name, AGENT) is None


def test_the_queue_of_events() -> None:
    assert read_name(own_name(AGENT, Kind.EVENTS), AGENT) == KeptName(Kind.EVENTS)
