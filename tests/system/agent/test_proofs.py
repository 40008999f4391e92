"""An agent's entries in `_audit` form one chain, with proofs by its key, whatever is killed."""

import random
import shutil
import time
from hashlib import sha256

import pytest

from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.ledger.chains import Walked, der_of, key_in, name_of, walk_audit
from tests.system.agent.incarnations import LogFile
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop

KILLS = 6
OFTEN = {"window": 1, "ledger_interval": 0.1}


def journal_of(site: Site, agent: AgentProcess) -> Walked:
    """Its one journal."""
    (found,) = journals_of(site, agent).values()
    return found


def journals_of(site: Site, agent: AgentProcess) -> dict[str, Walked]:
    return {
        source: walked
        for source, walked in walk_audit(site.brokers).items()
        if walked.entries[0]["header"]["host"] == agent.host
    }


def ship(topic: Topic, log: LogFile, lines: int) -> None:
    log.write(lines)
    topic.wait_for_message(f"a {log.lines - 1} ")


def sources_in(walked: Walked) -> set[str]:
    return {
        run["source"]
        for entry in walked.entries
        for passage in entry["passages"]
        for run in passage["runs"]
    }


@pytest.mark.slow
def test_one_chain_over_kills_and_restarts(site: Site, topic: Topic) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed={seed}")
    chance, log = random.Random(seed), site.file()
    agent = site.agent(site.reads(topic), settings=OFTEN)
    for _ in range(KILLS):
        agent.start()
        ship(topic, log, 10)
        time.sleep(chance.uniform(0.0, 0.5))
        log.write(10)
        time.sleep(chance.uniform(0.0, 0.2))
        agent.kill()
    agent.start()
    ship(topic, log, 10)
    wait_until(
        lambda: len(journal_of(site, agent).proofs) > KILLS, within=60, what="heartbeats are proven"
    )
    status = agent.status()
    stop(agent)
    walked, key = journal_of(site, agent), key_in(agent.data_dir)
    assert walked.keys == [key]
    assert walked.numbers == list(range(len(walked.values)))
    assert walked.breaks == []
    assert list(journals_of(site, agent)) == [name_of(key)]
    for entry in walked.entries:
        assert not entry["heartbeats"] or entry["header"]["seq"] in walked.proofs
    assert len(walked.proofs) < len(walked.values), "what has no heartbeat needs no proof"
    sources = sources_in(walked)
    assert sources
    assert {source[:10] for source in sources} == {name_of(key)[:10]}
    assert status["fingerprint"] == sha256(der_of(key)).hexdigest()
    assert status["public_key"] == (agent.data_dir / "signing-key.pub").read_text()


@pytest.mark.slow
def test_a_copied_directory_has_a_key_and_sources_of_its_own(site: Site, topic: Topic) -> None:
    log = site.file()
    first, second = (site.agent(site.reads(topic), settings=OFTEN) for _ in range(2))
    first.start()
    ship(topic, log, 20)
    wait_until(
        lambda: any(map(sources_in, journals_of(site, first).values())),
        within=60,
        what="what was shipped is in the ledger",
    )
    first.kill()
    shutil.copytree(first.data_dir, second.data_dir, symlinks=True)
    second.start()
    ship(topic, log, 20)
    wait_until(
        lambda: any(map(sources_in, journals_of(site, second).values())),
        within=60,
        what="what the copy has shipped is in the ledger",
    )
    stop(second)
    ours, theirs = key_in(first.data_dir), key_in(second.data_dir)
    assert ours != theirs
    private = [each.data_dir / "signing-key" for each in (first, second)]
    assert private[0].read_bytes() != private[1].read_bytes()
    for agent, key in ((first, ours), (second, theirs)):
        ((source, walked),) = journals_of(site, agent).items()
        assert (source, walked.keys, walked.breaks) == (name_of(key), [key], [])
        assert {each[:10] for each in sources_in(walked)} == {source[:10]}


@pytest.mark.slow
def test_a_lost_key_is_replaced_and_said(site: Site, topic: Topic) -> None:
    log = site.file()
    agent = site.agent(site.reads(topic), settings=OFTEN)
    agent.start()
    ship(topic, log, 20)
    wait_until(lambda: journal_of(site, agent).proofs, within=60, what="a heartbeat is proven")
    stop(agent)
    former, count = key_in(agent.data_dir), len(journal_of(site, agent).values)
    (agent.data_dir / "signing-key").unlink()
    agent.start()
    ship(topic, log, 20)
    wait_until(lambda: journal_of(site, agent).proven >= count, within=60, what="it is heard again")
    stop(agent)
    walked, key = journal_of(site, agent), key_in(agent.data_dir)
    assert walked.keys == [former, key]
    assert count in walked.proofs, "the first entry after a start has a proof"
    assert walked.breaks == []
    assert list(journals_of(site, agent)) == [name_of(former)]
    (line,) = agent.said("signing key is another")
    assert "rejects" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"nonsense", 0o600, "not a private key"),
        (None, 0o644, "other users can use this key"),
    ],
)
def test_a_key_that_is_none_ends_the_start(
    site: Site, topic: Topic, content: bytes | None, mode: int, words: str
) -> None:
    agent = site.agent(site.reads(topic))
    agent.start()
    stop(agent)
    path = agent.data_dir / "signing-key"
    if content is not None:
        path.write_bytes(content)
    path.chmod(mode)
    ended = agent.command("agent", "--config", str(agent.config))
    assert ended.returncode != 0
    (line,) = ended.stderr.splitlines()
    assert "cannot use the key of this agent" in line
    assert words in line
