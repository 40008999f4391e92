"""`penstock audit retire` and `accept`: what they write into a real `_audit`, and what they say."""

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from audit.api.answers import AgentRow, AgentsAnswer, BrokersAnswer, ConsumerRow, ListPage
from client.admin.topics import create_topic, delete_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.security import Login, Mechanism, Security
from client.errors import Refused
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ground.signatures.keys import PublicKey, SigningKey
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.names import LEDGER_TOPIC, topic_id_text
from ledger.proofs import HEADER, Proof, digest_of
from penstock.connections.cluster import bootstrap_option
from penstock.report.operator import BytesType, LedgerPlace, NumbersType, operator
from penstock.services.audit import command
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.penstock.answering_audit import Query, answering
from tests.penstock.running import Ended, penstock
from wire.record_batches.records import Record

SEVEN = 1_795_158_000_000  # 2026-11-20, 07:00 UTC


class Cluster:
    """`penstock audit …` with the addresses of one cluster, and its ledger."""

    def __init__(self, broker: BrokerProcess, registry: RegistryProcess) -> None:
        self.bootstrap = broker.bootstrap
        self.registry = registry.url
        self.name = f"cluster-{uuid.uuid4().hex[:8]}"

    def run(self, *arguments: str) -> Ended:
        where = ("-b", self.bootstrap, "-r", self.registry, "--cluster", self.name)
        return penstock("audit", *arguments, *where)

    def said(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    def entries(self) -> list[Mapping[str, Any]]:
        """What operators have said in this cluster's name."""
        return [entry for entry, _ in self.signed_entries()]

    def signed_entries(self) -> list[tuple[Mapping[str, Any], PublicKey | None]]:
        """The same, with the key that has signed each."""
        with (
            Brokers(Bootstrap.of(self.bootstrap)) as brokers,
            RegistryClient(self.registry) as registry,
            Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer,
        ):
            decoder = Decoder(registry.schema, built_in(LEDGER))
            # Others write there too, under schemas that this registry does not know.
            records = [
                each.record for each in consumer if self.name.encode() in (each.record.value or b"")
            ]
            entries = [(decoder.decode(record.value or b""), signer(record)) for record in records]
        return [entry for entry in entries if entry[0]["cluster"] == self.name]


def signer(record: Record) -> PublicKey | None:
    proof = Proof.decode(dict(record.headers).get(HEADER) or b"")
    if proof is None or proof.key is None:
        return None
    assert proof.holds(proof.key, digest_of(record.value or b""))
    return proof.key


@pytest.fixture
def cluster(running_broker: BrokerProcess, running_registry: RegistryProcess) -> Cluster:
    bootstrap = Bootstrap.of(running_broker.bootstrap)
    with Brokers(bootstrap) as brokers, suppress(Refused):  # it may be there already
        create_topic(brokers, LEDGER_TOPIC, partitions=2)
    return Cluster(running_broker, running_registry)


def row(host: str, agent: str, until: int) -> AgentRow:
    return AgentRow(
        agent=agent,
        host=host,
        cluster="",
        version="1",
        topics=["clicks"],
        lag_bytes=0,
        heard=until,
        until=until,
        state="silent",
        reason="",
    )


def agents(*rows: AgentRow, size: int = 2) -> Any:
    """What an audit answers that knows these, a few on a page."""

    def answers(_: str, query: Query) -> tuple[int, bytes]:
        found = [each for each in rows if query["search"] in each.host]
        first = (int(query["page"]) - 1) * size
        page = ListPage(page=int(query["page"]), size=size, total=len(found))
        answer = AgentsAnswer(by_state={}, page=page, items=found[first : first + size])
        return 200, msgspec.json.encode(answer)

    return answers


def test_a_host_is_retired_from_a_time_on(cluster: Cluster) -> None:
    said = cluster.said("retire", "web-3", "--since", "2026-11-20T07", "--reason", "disk broke")
    assert said.startswith(
        f"web-3 is retired in cluster {cluster.name}: nothing is expected from 2026-11-20 07:00 "
        "UTC on, until it is heard from again.\n"
    )
    (entry,) = cluster.entries()
    assert (entry["tier"], entry["version"], entry["header"]["seq"]) == ("operator", 1, 0)
    assert entry["header"]["source"].startswith("operator-")
    (retired,) = entry["retired"]
    assert retired["operator"]
    assert {**retired, "operator": ""} == {
        "host": "web-3",
        "agent": "",
        "since": SEVEN,
        "reason": "disk broke",
        "operator": "",
    }


def test_a_statement_is_signed_with_the_key_of_the_command_or_the_audit(
    cluster: Cluster, tmp_path: Path
) -> None:
    key, audit_key = SigningKey.new(), SigningKey.kept(tmp_path / "signing-key")
    key.write(tmp_path / "own-key")
    retire = ("retire", "web-3", "--since", "2026-11-20T07", "--reason", "disk broke")
    cluster.said(*retire, "--signing-key", str(tmp_path / "own-key"))
    config = tmp_path / "audit.yaml"
    settings = {"brokers": [cluster.bootstrap], "registry": cluster.registry}
    config.write_text(
        yaml.safe_dump({"data_dir": str(tmp_path), "clusters": {cluster.name: settings}})
    )
    ended = penstock("audit", *retire, "--config", str(config))
    assert ended.returncode == 0, ended
    signers = [signer for _, signer in cluster.signed_entries()]
    assert len(signers) == 2
    assert set(signers) == {key.public, audit_key.public}


def test_a_key_that_others_can_read_signs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "own-key"
    SigningKey.new().write(path)
    path.chmod(0o644)
    retire = ("retire", "web-3", "--since", "2026-11-20T07", "--reason", "disk broke")
    ended = cluster.run(*retire, "--signing-key", str(path))
    assert ended.returncode == 1
    assert f"{path}: other users can use this key: set its mode to 600" in ended.stderr
    assert cluster.entries() == []


def test_each_call_is_a_journal_of_its_own(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.said("retire", "web-3", "--since", "2026-11-20T07", "--reason", "twice")
    first, second = cluster.entries()
    assert first["header"]["source"] != second["header"]["source"]
    assert first["retired"] == second["retired"]


def test_without_a_time_it_is_as_far_as_its_agents_have_come(cluster: Cluster) -> None:
    known = [row("web-31", "x", 1), *(row("web-3", f"a{n}", SEVEN + n * 60_000) for n in (3, 2, 4))]
    with answering(agents(*known)) as audit:
        where = ("--reason", "gone", "--audit", audit.url)
        said = json.loads(cluster.said("retire", "web-3", "--json", *where))
        one = json.loads(cluster.said("retire", "web-3", "--agent-id", "a3", "--json", *where))
        cluster.said("retire", "web-3", "--dry-run", *where)
        unknown = cluster.run("retire", "web", *where)
    assert [each["since"] for each in (*said, *one)] == [SEVEN + 120_000, SEVEN + 180_000]
    assert {query["cluster"] for _, query in audit.asked} == {cluster.name}
    assert unknown.returncode == 1
    assert "does not know host web in cluster" in unknown.stderr
    assert sorted(each["retired"][0]["agent"] for each in cluster.entries()) == ["", "a3"]


def test_a_host_that_was_never_heard(cluster: Cluster) -> None:
    with answering(agents(row("web-9", "", -1))) as audit:
        said = cluster.said("retire", "web-9", "--reason", "never came", "--audit", audit.url)
    assert "nothing is expected from the beginning on" in said
    assert cluster.entries()[0]["retired"][0]["since"] == 0


def test_a_root_is_retired_in_the_clusters_that_load_into_it(cluster: Cluster) -> None:
    rows = [ConsumerRow(name, "s3://w", "t", 1, 0, SEVEN) for name in (cluster.name, "another")]
    answer = msgspec.json.encode(BrokersAnswer(brokers=[], consumers=rows, unreachable={}))
    with answering(lambda *_: (200, answer)) as audit:
        where = ("--reason", "deleted", "--audit", audit.url)
        assert "nothing is expected in" in cluster.said("retire", "s3://w", *where)
        unknown = cluster.run("retire", "s3://", *where)
    assert "expects nothing in s3://; topics are loaded into s3://w\n" in unknown.stderr
    assert [each["retired"][0]["host"] for each in cluster.entries()] == ["s3://w"]


def accepted(cluster: Cluster) -> Mapping[str, Any]:
    (entry,) = cluster.entries()
    (found,) = entry["accepted"]
    assert isinstance(found, dict)
    return found


def test_offsets_are_accepted(cluster: Cluster, new_topic: str) -> None:
    with Brokers(Bootstrap.of(cluster.bootstrap)) as brokers:
        topic_id = topic_id_text(create_topic(brokers, new_topic).id)
    ranges = ("--offsets", "4,711-4,722", "--offsets", "7")
    said = cluster.said("accept", new_topic, "--partition", "0", *ranges, "--reason", "disk broke")
    assert said.startswith(
        f"{new_topic} of cluster {cluster.name}: accepted partition 0, offsets 4,711 to 4,722, "
        f"offsets 7.\n`penstock report {new_topic} --from 2"
    )
    found = accepted(cluster)
    assert found["topic_id"] == topic_id != ""
    assert (found["partition"], found["reason"]) == (0, "disk broke")
    assert found["offsets"] == [{"first": 4711, "count": 12}, {"first": 7, "count": 1}]
    assert (found["runs"], found["from_time"], found["to_time"]) == ([], None, None)
    misspelt = cluster.run("accept", f"{new_topic}s", "--whole-topic", "--reason", "x")
    assert misspelt.returncode == 1
    assert f"did you mean {new_topic}?" in misspelt.stderr


@pytest.mark.parametrize(
    ("options", "words", "run"),
    [
        (["--seqs", "120-131"], "events 120 to 131", {"seq": 120, "events": 12, "position": -1}),
        (
            ["--bytes", "8192-9216"],
            "bytes 8,192 to 9,216",
            {"events": 0, "position": 8192, "end_position": 9216},
        ),
    ],
)
def test_a_part_of_a_file_is_accepted(
    cluster: Cluster, new_topic: str, options: list[str], words: str, run: dict[str, int]
) -> None:
    source = ("--topic-id", "any", "--source", "a1-7", "--reason", "known")
    said = cluster.said("accept", new_topic, *options, *source)
    assert f"accepted {words} of source a1-7.\n" in said
    found = accepted(cluster)
    assert (found["topic_id"], found["partition"]) == ("", -1)  # there is no such topic now
    (known,) = found["runs"]
    assert known.items() >= {"source": "a1-7", **run}.items()


def test_a_fault_of_a_topic_that_was_made_again_is_accepted(
    cluster: Cluster, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(cluster.bootstrap)) as brokers:
        former = topic_id_text(create_topic(brokers, new_topic).id)
        delete_topic(brokers, new_topic)
        current = topic_id_text(create_topic(brokers, new_topic).id)
    assert former != current
    host = ("--host", "web-3", "--reason", "known")
    cluster.said("accept", new_topic, "--topic-id", former, *host)
    assert accepted(cluster)["topic_id"] == former


def test_times_of_a_host_are_accepted(cluster: Cluster, new_topic: str) -> None:
    times = (
        "--from",
        "2026-11-20T07",
        "--to",
        "2026-11-20T08",
        "--topic-id",
        "any",
        "--reason",
        "x",
    )
    said = json.loads(cluster.said("accept", new_topic, "--host", "web-3", *times, "--json"))
    found = accepted(cluster)
    assert said["cluster"] == cluster.name
    assert {**said, "cluster": None} == {**found, "cluster": None}
    assert found["host"] == "web-3"
    assert (found["from_time"], found["to_time"]) == (SEVEN, SEVEN + 3_600_000)


def test_all_that_is_older_is_accepted(cluster: Cluster, new_topic: str) -> None:
    older = ("--to", "2026-11-20T07", "--topic-id", "any", "--reason", "not counted yet")
    said = cluster.said("accept", new_topic, *older)
    assert "accepted windows before 2026-11-20 07:00 UTC.\n" in said
    found = accepted(cluster)
    assert (found["from_time"], found["to_time"], found["partition"]) == (None, SEVEN, -1)


def test_clusters_stand_in_the_audits_configuration(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    one = {"brokers": [cluster.bootstrap], "registry": cluster.registry}
    names = [cluster.name, f"{cluster.name}-b"]
    clusters = msgspec.yaml.encode({"data_dir": "/d", "clusters": dict.fromkeys(names, one)})
    config.write_bytes(clusters)
    told = ("--config", str(config), "--reason", "x")
    retire = ("audit", "retire", "web-3", "--since", "2026-11-20", *told, "--json")
    assert [each["cluster"] for each in json.loads(penstock(*retire).stdout)] == names
    assert len(cluster.entries()) == 1
    accept = ("audit", "accept", "clicks", "--topic-id", "any", "--host", "web-3", *told)
    undecided = penstock(*accept)
    assert undecided.returncode == 2
    assert f"--cluster, one of {', '.join(names)}" in undecided.stderr
    assert penstock(*accept, "--cluster", names[0]).returncode == 0
    assert len(cluster.entries()) == 2
    other = penstock(*accept, "--cluster", "dc9")
    assert (other.returncode, f"has no cluster dc9; its clusters: {names[0]}" in other.stderr) == (
        2,
        True,
    )


WRONG = [
    ("", "pass --config FILE, or every key with --set"),
    ("--count retire web-3", "pass options after retire"),
    ("retire web-3", "--reason"),
    ("retire web-3 --since soon --reason x", "is not a time such as"),
    ("retire file:///w --agent-id a --reason x -b a:1", "a root is retired as a whole"),
    ("accept clicks --reason x", "pass --whole-topic alone"),
    ("accept clicks --host h", "--reason"),
    ("accept clicks --host h --reason REASON", "replace the placeholder with a reason"),
    ("accept clicks --topic-id 7 --host h", "is not a topic id"),
    ("accept clicks --offsets 1-2 --reason x", "--offsets needs --partition"),
    ("accept clicks --bytes 1-2 --reason x", "--seqs and --bytes need --source"),
    ("accept clicks --source s --reason x", "--source needs --seqs or --bytes"),
    ("accept clicks --source s --seqs 1 --bytes 1-2 --reason x", "pass either --seqs or --bytes"),
    ("accept clicks --from 2026-11-20 --to 2026-11-20 --reason x", "--from must be before --to"),
    (
        "accept clicks --config audit.yaml -b a --host h --reason x",
        "--config names a file with brokers and registries",
    ),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_wrong_usage(words: str, said: str) -> None:
    with (
        pytest.raises(click.UsageError) as error,
        command.make_context("audit", words.split()) as audit,
    ):
        command.invoke(audit)
    assert said in error.value.format_message()


def test_a_cluster_without_a_ledger(running_registry: RegistryProcess) -> None:
    ended = penstock(
        *("audit", "retire", "h", "--since", "2026-11-20", "--reason", "x"),
        *("-b", "127.0.0.1:9", "-r", running_registry.url),
    )
    assert ended.returncode == 1
    assert "no broker at 127.0.0.1:9" in ended.stderr


def test_who_makes_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    assert operator(Security()) == "ada"
    login = Login(mechanism=Mechanism.SCRAM_SHA_512, user="ops", password_file="unread")
    assert operator(Security(login=login)) == "ada as ops"


def test_a_ledger_is_entered_as_its_file_says_unless_the_command_says_who(tmp_path: Path) -> None:
    login = {"mechanism": "SCRAM-SHA-512", "user": "ops", "password_file": "unread"}
    path = tmp_path / "security.yaml"
    path.write_text(yaml.safe_dump({"login": login}))
    audits = Login(mechanism=Mechanism.SCRAM_SHA_512, user="audit", password_file="unread")
    found: list[str] = []

    @click.command()
    @bootstrap_option
    def command(bootstrap: str) -> None:
        for security in (None, Security(login=audits)):
            said = LedgerPlace("dc1", bootstrap, "", security).credentials.login
            found.append(said.user if said else "")

    command.main(["--security", str(path)], standalone_mode=False)
    command.main([], standalone_mode=False)
    assert found == ["ops", "ops", "", "audit"]


NUMBERS, BYTES = NumbersType(), BytesType()


@pytest.mark.parametrize(
    "text", ["4711-4722", "4,711-4,722", "4,711 to 4,722", "4711 - 4722", "4711–4722"]
)
def test_a_range_of_offsets_includes_its_last(text: str) -> None:
    assert NUMBERS.convert(text, None, None) == (4711, 4723)
    assert BYTES.convert(text, None, None) == (4711, 4722)


def test_a_single_one() -> None:
    assert NUMBERS.convert("7", None, None) == (7, 8)
    with pytest.raises(click.BadParameter):
        BYTES.convert("7", None, None)


@pytest.mark.parametrize(
    "text",
    ["", "-", "5-4", "-5", "1-2-3", "a-b", "1e3", "0x10", "٣-٤", "9" * 5_000, f"5-{2**63 - 1}"],
)
def test_no_range(text: str) -> None:
    with pytest.raises(click.BadParameter):
        NUMBERS.convert(text, None, None)


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**40))
def test_what_is_shown_can_be_typed(first: int, more: int) -> None:
    last = min(first + more, 2**62 - 1)
    found = NUMBERS.convert(f"{first:,} to {last:,}", None, None)
    assert (found.first, found.end, found.size) == (first, last + 1, last + 1 - first)


@given(st.text())
def test_whatever_is_typed(text: str) -> None:
    for kind in (NUMBERS, BYTES):
        try:
            found = kind.convert(text, None, None)
        except click.BadParameter:
            continue
        assert 0 <= found.first < found.end <= 2**62
