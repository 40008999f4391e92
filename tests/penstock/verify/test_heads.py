"""What `verify` says of heads files: also of those that an audit and a loader have signed together
although an agent has not."""

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from ground.signatures.keys import SigningKey
from ledger.heads_files import Absent, Head, Heads, Reason
from ledger.proofs import Chain
from loader.values.tables import HOUR_MILLIS
from penstock.verify.faults import Kind, Verdict
from penstock.verify.keys import TrustedKeys
from penstock.verify.store import LocalStore
from penstock.verify.tables import CheckedTable, Expectations, TableChecker
from penstock.verify.words import table_lines
from tests.penstock.verify.signed_heads import SignedAgent, with_head, without_host, written
from tests.penstock.verify.signed_tables import (
    FIRST,
    TABLE,
    SignedTable,
    Signers,
    signed_table,
)

HOURS: Final = 3
LAST: Final = HOURS - 1
END: Final = FIRST + HOURS * HOUR_MILLIS

Forge = Callable[[SignedTable, Heads], Heads]


@pytest.fixture
def table(tmp_path: Path) -> SignedTable:
    signers = Signers.new()
    signers.write_public(tmp_path / "keys")
    return signed_table(tmp_path / "root", signers, range(HOURS))


def checked(table: SignedTable, **expected: Any) -> CheckedTable:
    keys = TrustedKeys(table.root.parent / "keys")
    with ThreadPoolExecutor(2) as pool:
        checker = TableChecker(LocalStore(table.root), keys, pool, Expectations(**expected))
        return checker.check(TABLE, None)


def faults(result: CheckedTable) -> dict[Kind, str]:
    """The words of the first fault of each kind."""
    return {kind: result.faults.of(kind)[0].words for kind in result.faults.kinds}


def certify(table: SignedTable, heads: Heads, **changes: Any) -> None:
    """Certifies the last hour with these heads: whoever does has the keys of audit and loader."""
    named = replace(written(table.root, heads, TABLE), **changes)
    table.certify(LAST, heads=named)


def agent(table: SignedTable, host: str) -> SignedAgent:
    return next(agent for agent in table.fleet.agents if agent.host == host)


def head_of(heads: Heads, host: str) -> Head:
    return next(head for head in heads.heads if head.host == host)


def test_heads_of_all_agents_are_whole(table: SignedTable) -> None:
    assert faults(checked(table)) == {}
    table.fleet.write_public(table.root.parent / "keys")
    result = checked(table)
    assert (faults(result), result.whole_hours) == ({}, HOURS)
    certify(table, table.fleet.next_heads(END))
    assert faults(checked(table)) == {}


def another_signature(table: SignedTable, heads: Heads) -> Heads:
    head = head_of(heads, "web-2")
    proof = head.proof[:40] + bytes([head.proof[40] ^ 1]) + head.proof[41:]
    return with_head(heads, replace(head, proof=proof))


def another_entry(table: SignedTable, heads: Heads) -> Heads:
    """With the signature of the true one."""
    head = head_of(heads, "web-2")
    forged = SignedAgent("web-2", [TABLE])
    forged.id = head.agent
    return with_head(heads, replace(head, value=forged.head(END + 9).value))


def that_of_another_host(table: SignedTable, heads: Heads) -> Heads:
    other = head_of(heads, "web-1")
    mine = head_of(heads, "web-2")
    return with_head(heads, replace(other, host="web-2", agent=mine.agent))


def an_older_one(table: SignedTable, heads: Heads) -> Heads:
    return with_head(heads, head_of(table.fleet.heads(END - HOUR_MILLIS), "web-2"))


def one_that_ends_before_the_hour(table: SignedTable, heads: Heads) -> Heads:
    return with_head(heads, agent(table, "web-2").head(END - 1))


def one_that_only_names_topics(table: SignedTable, heads: Heads) -> Heads:
    beats = [{"until": 0, "topics": [TABLE], "lag_bytes": 0}]
    return with_head(heads, agent(table, "web-2").head(END, heartbeats=beats))


def an_entry_without_heartbeats(table: SignedTable, heads: Heads) -> Heads:
    return with_head(heads, agent(table, "web-2").head(END, heartbeats=[]))


def an_entry_of_an_operator(table: SignedTable, heads: Heads) -> Heads:
    return with_head(heads, agent(table, "web-2").head(END, tier="operator"))


def one_that_names_another_topic(table: SignedTable, heads: Heads) -> Heads:
    beats = [{"until": END, "topics": ["secrets"], "lag_bytes": 0}]
    return with_head(heads, agent(table, "web-2").head(END, heartbeats=beats))


def one_of_a_stranger(table: SignedTable, heads: Heads) -> Heads:
    """Whose key is in the file in place of the agent's."""
    head, chain = head_of(heads, "web-2"), Chain(SigningKey.new())
    proof = chain.prove(head.value, 0.0).encoded
    return with_head(heads, replace(head, key=chain.key.public.der, proof=proof))


FORGERIES: Final[dict[Forge, str]] = {
    another_signature: "is not signed with the key of its journal",
    another_entry: "is not signed with the key of its journal",
    that_of_another_host: "on web-1",
    an_older_one: "the head of web-2 reaches 2026-11-30T02:00:00Z",
    one_that_ends_before_the_hour: "the head of web-2 reaches 2026-11-30T02:59:59Z",
    one_that_only_names_topics: "the head of web-2 reaches nowhere in clicks",
    an_entry_without_heartbeats: "has no heartbeat",
    an_entry_of_an_operator: "has an entry of the tier operator",
    one_that_names_another_topic: "names the topic secrets",
    one_of_a_stranger: "the head of web-2 has another key than the one, which",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_head_that_its_agent_has_not_signed(table: SignedTable, forge: Forge) -> None:
    certify(table, forge(table, table.fleet.next_heads(END)))
    result = checked(table)
    assert result.faults.verdict is Verdict.ALTERED
    words = faults(result)[Kind.WRONG_HEAD]
    assert FORGERIES[forge] in words
    assert "web-2" in words


def test_a_stranger_is_told_by_the_agents_keys(table: SignedTable) -> None:
    """Also if it has a journal that is named for its key."""
    table.fleet.write_public(table.root.parent / "keys")
    heads = table.fleet.next_heads(END)
    stranger = SignedAgent("web-4", [TABLE]).head(END)
    certify(table, replace(heads, heads=(*heads.heads, stranger)))
    result = checked(table)
    assert result.faults.verdict is Verdict.NOT_VERIFIABLE
    assert "the key of web-4" in faults(result)[Kind.UNKNOWN_AGENT]


def test_a_host_that_is_left_out(table: SignedTable) -> None:
    """The file before it has the host; without that, the folder of keys does."""
    certify(table, without_host(table.fleet.next_heads(END), "web-2"))
    words = faults(checked(table))
    assert words.keys() == {Kind.MISSING_HEAD}
    dropped = agent(table, "web-2").id
    assert f"there is no agent {dropped} of web-2" in words[Kind.MISSING_HEAD]


def test_a_host_that_was_always_left_out_is_told_by_its_key(tmp_path: Path) -> None:
    signers = Signers.new()
    keys = signers.write_public(tmp_path / "keys")
    table = SignedTable(tmp_path / "root", signers)
    table.add_rows(LAST)
    certify(table, without_host(table.fleet.heads(END), "web-2"))
    assert faults(checked(table)) == {}
    table.fleet.write_public(keys)
    words = faults(checked(table))
    assert "no agent of the host web-2, whose key agent/web-2.pub is" in words[Kind.MISSING_HEAD]
    # A file of those days need not have the agents of today.
    span = (END - HOUR_MILLIS, END)
    assert faults(checked(table, span=span)) == {}


def test_a_head_that_is_taken_out_of_the_file(table: SignedTable) -> None:
    path = table.heads_file(LAST)
    document = json.loads(path.read_bytes())
    document["heads"] = [head for head in document["heads"] if head["host"] != "web-2"]
    path.write_text(json.dumps(document))
    words = faults(checked(table))
    assert words.keys() == {Kind.CHANGED_HEADS, Kind.MISSING_HEAD}
    assert "of web-2" in words[Kind.MISSING_HEAD]


def test_a_head_that_is_forged_in_the_file(table: SignedTable) -> None:
    path = table.heads_file(LAST)
    document = json.loads(path.read_bytes())
    value = bytearray(base64.b64decode(document["heads"][1]["value"]))
    value[-1] ^= 2
    document["heads"][1]["value"] = base64.b64encode(value).decode()
    path.write_text(json.dumps(document))
    words = faults(checked(table))
    assert words.keys() == {Kind.CHANGED_HEADS, Kind.WRONG_HEAD}
    assert "the head of web-2" in words[Kind.WRONG_HEAD]


def test_a_file_that_is_missing(table: SignedTable) -> None:
    table.heads_file(LAST).unlink()
    assert faults(checked(table)).keys() == {Kind.MISSING_HEADS}
    assert faults(checked(table, allow_missing=True)) == {}


def test_an_agent_without_a_head_is_named(table: SignedTable) -> None:
    heads = table.fleet.next_heads(END)
    head = head_of(heads, "web-2")
    sold = Absent(
        agent=head.agent, host="web-2", topics=0, reason=Reason.RETIRED, words="sold, by alice"
    )
    certify(table, replace(without_host(heads, "web-2"), absent=(sold,)))
    result = checked(table)
    assert faults(result) == {}
    lines = [line.text for line in table_lines(result)]
    assert "  No signed head of web-2 (retired: sold, by alice)." in lines


def test_an_agent_that_was_not_heard_for_long_is_forgotten(tmp_path: Path) -> None:
    """An audit knows it for 31 days."""
    signers = Signers.new()
    signers.write_public(tmp_path / "keys")
    for days, kinds in ((30, {Kind.NO_HOUR, Kind.MISSING_HEAD}), (32, {Kind.NO_HOUR})):
        table = SignedTable(tmp_path / f"after-{days}", signers)
        for hour in (0, days * 24):
            heads = table.fleet.heads(FIRST + (hour + 1) * HOUR_MILLIS)
            heads = without_host(heads, "web-2") if hour else heads
            table.add_rows(hour)
            table.certify(hour, heads=written(table.root, heads, TABLE))
        assert faults(checked(table)).keys() == kinds


CONTRADICTIONS: Final[dict[str, dict[str, Any]]] = {
    "names /etc/passwd, which is no name": {"path": "/etc/passwd"},
    "names heads of the cluster dc2": {"cluster": "dc2"},
}


@pytest.mark.parametrize("words", CONTRADICTIONS)
def test_a_certificate_that_names_no_heads_of_its_own(table: SignedTable, words: str) -> None:
    certify(table, table.fleet.next_heads(END), **CONTRADICTIONS[words])
    assert words in faults(checked(table))[Kind.CONTRADICTION]


def test_another_number_of_agents(table: SignedTable) -> None:
    certify(table, table.fleet.next_heads(END), agents=4)
    assert "has 3 agents of clicks" in faults(checked(table))[Kind.MISSING_HEAD]
    certify(table, table.fleet.next_heads(END), topic="views")
    assert "has 0 agents of views" in faults(checked(table))[Kind.MISSING_HEAD]


def _with_another_order(text: str) -> str:
    """A schema by which the same bytes have another meaning."""
    schema = json.loads(text)
    fields = schema["fields"]
    fields[1], fields[2] = fields[2], fields[1]
    return json.dumps(schema)


SCHEMAS: Final[dict[str, Callable[[str], str]]] = {
    "is not one of the ledger": _with_another_order,
    "the invalid schema": lambda _: "nonsense",
}


@pytest.mark.parametrize("words", SCHEMAS)
def test_schemas_that_are_not_the_ledgers(table: SignedTable, words: str) -> None:
    heads = table.fleet.next_heads(END)
    schemas = {number: SCHEMAS[words](text) for number, text in heads.schemas.items()}
    certify(table, replace(heads, schemas=schemas))
    assert words in faults(checked(table))[Kind.WRONG_HEAD]


def test_certificates_of_releases_before_heads(table: SignedTable) -> None:
    table.certify(LAST, heads=None)
    result = checked(table)
    assert faults(result) == {}
    lines = [line.text for line in table_lines(result)]
    assert "  1 certificate names no signed heads of agents." in lines
