"""The file that says who is expected: its forms, what is wrong with it, when it is read again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.configuration.config import Inventory
from audit.configuration.inventory import BadInventory, InventoryFile, parsed

WEB = [Inventory(host="web-1"), Inventory(host="web-2", topics=("clicks",))]


def test_hosts_one_a_line() -> None:
    text = "# our hosts\nweb-1\n\n  web-2   # in rack 4\r\nfe80::1\nweb-1\n"
    assert [each.host for each in parsed(text)] == ["web-1", "web-2", "fe80::1"]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("- web-1\n- {host: web-2, topics: [clicks]}\n", WEB),
        ("# ours\n---\n- web-1\n- host: web-2\n  topics:\n    - clicks\n", WEB),
        ("[web-1, {host: web-2, topics: [clicks]}]", WEB),
        ("- {host: a, topics: [x]}\n- a\n", [Inventory(host="a")]),  # the last word counts
        *((nobody, []) for nobody in ("", "\n", "# nobody\n", "[]")),
    ],
)
def test_yaml(text: str, hosts: list[Inventory]) -> None:
    assert parsed(text) == hosts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a\n- [b]\n", "not a list of hosts"),
        ("- {hosts: a}\n", "not a list of hosts"),
        ("- {host: a, topic: x}\n", "not a list of hosts"),
        ("- a\n- 'b\n", "line"),
        ("- !!python/object/apply:os.system [true]\n", "could not determine a constructor"),
        ("a b\n", "host 1 is not a valid name"),
        ("a\nb\x1b[2J\n", "host 2 is not a valid name"),
        ("- ''\n", "host 1 is not a valid name"),
        ("- {host: a, topics: ['']}\n", "a topic of host 1"),
        (f"{'a' * 2000}\n", "host 1 is not a valid name"),
        ("- &a [*a]\n", "not a list of hosts"),
        (f"{'[' * 5000}", "line|it is"),
    ],
)
def test_what_cannot_be_meant(text: str, why: str) -> None:
    with pytest.raises(BadInventory, match=why):
        parsed(text)


@given(st.text(), st.booleans())
def test_any_text_is_hosts_or_refused(text: str, is_yaml: bool) -> None:
    try:
        hosts = parsed(text, is_yaml=is_yaml)
    except BadInventory:
        return
    assert len({each.host for each in hosts}) == len(hosts)


def test_it_is_read_again_when_it_changes_and_a_bad_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    file = InventoryFile(path)
    assert file.changed() is None
    assert "No such file" in file.problem
    path.write_text("web-1\n")
    assert file.changed() == WEB[:1]
    assert (file.changed(), file.problem) == (None, "")
    path.write_text("web 1\n")
    assert file.changed() is None
    assert "host 1 is not a valid name" in file.problem
    path.write_text("web-1\n")
    assert file.changed() == WEB[:1]
    assert file.problem == ""
    path.write_bytes(b"web-\xff\n")
    assert file.changed() is None
    assert "byte 4 is not UTF-8" in file.problem
