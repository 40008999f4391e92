"""What links lead an agent to that may read more than whoever made them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from agent.agent import Agent
from agent.configuration.config import AgentConfig
from agent.configuration.file_inputs import FileInput
from agent.configuration.inputs import Input
from agent.files.happenings import Appeared, Unreadable
from agent.open_files.opening import FollowLinks, Opening, SecretFiles
from harness.processes.waiting import wait_until
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import JournalledFiles, kept_files
from tests.agent.nobody import NOBODY, open_folder

SHOP, OTHER = NOBODY, NOBODY - 1

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")


class Host:
    """`shop` is an application's folder; `etc` is not its business."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._following: list[JournalledFiles] = []
        self.shop, self.etc = self.folder("shop", SHOP), self.folder("etc", 0)

    def folder(self, name: str, owner: int, mode: int = 0o755) -> Path:
        path = self.root / name
        path.mkdir(mode)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def file(self, path: Path, owner: int, mode: int = 0o600) -> Path:
        path.write_text("text\n")
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path

    def link(self, path: Path, target: Path | str, owner: int = SHOP) -> None:
        path.symlink_to(target)
        os.lchown(path, owner, owner)

    def follow(
        self, opening: Opening | None = None, store: ProgramDescriptors | None = None
    ) -> JournalledFiles:
        paths = (f"{self.root}/shop/*.log", f"{self.root}/shop/*/*.log", f"{self.root}/way/*.log")
        files = JournalledFiles(
            FileInput("in", "t", paths), opening=opening or Opening(), store=store
        )
        self._following.append(files)
        return files

    def close(self) -> None:
        for each in self._following:
            each.close()


@pytest.fixture
def host() -> Iterator[Host]:
    with open_folder() as root:
        host = Host(root)
        yield host
        host.close()


def _shadow(host: Host) -> Path:
    return host.file(host.etc / "shadow.log", 0)


def to_a_file(host: Host) -> None:
    host.link(host.shop / "app.log", _shadow(host))


def through_a_folder(host: Host) -> None:
    _shadow(host)
    host.link(host.shop / "sub", host.etc)


def through_a_link_of_roots(host: Host) -> None:
    host.link(host.etc / "current", "shadow.log", 0)
    _shadow(host)
    host.link(host.shop / "app.log", host.etc / "current")


def behind_ones_own_folder(host: Host) -> None:
    _shadow(host)
    host.folder("shop/mine", SHOP)
    host.link(host.shop / "sub", "mine/../../etc")


def to_another_users(host: Host) -> None:
    host.file(host.folder("other", OTHER) / "mail.log", OTHER)
    host.link(host.shop / "app.log", "../other/mail.log")


def in_a_folder_that_only_root_enters(host: Host) -> None:
    host.file(host.folder("closed", 0, 0o700) / "open.log", 0, 0o644)
    host.link(host.shop / "app.log", "../closed/open.log")


def by_another_name(host: Host) -> None:
    (host.shop / "app.log").hardlink_to(_shadow(host))


def by_another_name_where_all_write(host: Host) -> None:
    host.shop.chmod(0o1777)
    os.chown(host.shop, 0, 0)
    (host.shop / "app.log").hardlink_to(_shadow(host))


def beside_ones_own(host: Host) -> None:
    """A link of root's in between is no excuse."""
    host.link(host.root / "way", host.shop, 0)
    to_a_file(host)


LURES = (
    to_a_file,
    through_a_folder,
    through_a_link_of_roots,
    behind_ones_own_folder,
    to_another_users,
    in_a_folder_that_only_root_enters,
    by_another_name,
    by_another_name_where_all_write,
    beside_ones_own,
)


@pytest.mark.parametrize("lure", LURES)
def test_what_who_made_the_link_may_not_read_is_refused_and_said_once(
    host: Host, lure: Callable[[Host], None]
) -> None:
    lure(host)
    files = host.follow()
    for _ in range(3):
        assert files.turn(6.0) == b""
    (said,) = files.of(Unreadable)
    assert "follow_links" in said.why
    assert files.files.barred == {"t"}


def made_by_root(host: Host) -> None:
    host.link(host.root / "way", host.folder("srv", 0, 0o700), 0)
    host.file(host.root / "srv/app.log", SHOP)


def to_ones_own(host: Host) -> None:
    host.file(host.folder("closed", 0, 0o700) / "app.1", SHOP)
    host.link(host.shop / "app.log", "../closed/app.1")


def to_what_everybody_may_read(host: Host) -> None:
    host.file(host.etc / "app.1", OTHER, 0o644)
    host.link(host.shop / "app.log", host.etc / "app.1")


def two_names_of_ones_own(host: Host) -> None:
    (host.shop / "app.log").hardlink_to(host.file(host.shop / "app.1", SHOP))


LAYOUTS = (made_by_root, to_ones_own, to_what_everybody_may_read, two_names_of_ones_own)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_links_that_give_nobody_more_are_followed(
    host: Host, layout: Callable[[Host], None]
) -> None:
    layout(host)
    files = host.follow()
    assert files.turn() == b"text\n"
    assert not list(files.of(Unreadable))
    assert not files.files.barred


def ones_own(host: Host) -> None:
    host.file(host.shop / "app.log", SHOP)


def others_own_in_ones_folder(host: Host) -> None:
    host.file(host.shop / "app.log", OTHER)


def renamed(host: Host) -> None:
    (host.shop / "app.log").rename(host.shop / "app.1")


def moved(host: Host) -> None:
    (host.shop / "app.log").rename(host.etc / "app.1")


def removed(host: Host) -> None:
    """The link, as far as there is one."""
    links = [each for each in host.shop.iterdir() if each.is_symlink()]
    for each in links or [host.shop / "app.log"]:
        each.unlink()


def rotated(host: Host) -> None:
    """Behind the link."""
    (host.etc / "shadow.log").rename(host.etc / "shadow.log.1")
    removed(host)


@pytest.mark.parametrize(
    ("layout", "then", "read"),
    [
        (to_a_file, rotated, b""),
        *((lure, then, b"") for lure in LURES for then in (None, removed)),
        *((layout, None, b"more\n") for layout in LAYOUTS),
        *((layout, removed, b"more\n") for layout in LAYOUTS[1:]),
        *((ones_own, then, b"more\n") for then in (None, renamed, moved, removed)),
        *((others_own_in_ones_folder, then, b"more\n") for then in (None, renamed, removed)),
        (others_own_in_ones_folder, moved, b""),
    ],
)
def test_what_an_earlier_agent_had_open_is_judged_again(
    host: Host,
    store: ProgramDescriptors,
    layout: Callable[[Host], None],
    then: Callable[[Host], None] | None,
    read: bytes,
) -> None:
    """It followed all links. The link may be gone by now."""
    layout(host)
    files = host.follow(Opening(FollowLinks.ALWAYS), store)
    assert files.turn() == b"text\n"
    (followed,) = (each.followed for each in files.of(Appeared))
    target = Path(f"/proc/self/fd/{followed.fd}").resolve()
    files.turn()
    with target.open("a") as file:
        if then is not None:
            then(host)
        if then is rotated:
            for _ in range(4):
                files.turn(3.0)  # the new name is in the journal
        files.files.close()
        file.write("more\n")
    files.opening = Opening()
    files.restart_closed()
    assert b"".join(files.turn(6.0) for _ in range(3)) == read
    assert bool(kept_files(store)) == bool(read)


def test_what_a_new_file_held_is_unknown_where_it_is_refused(
    host: Host, store: ProgramDescriptors
) -> None:
    """It was empty when the earlier agent met it, so it has no source that could be lost."""
    to_a_file(host)
    (target,) = (path for path in host.etc.iterdir() if path.is_file())
    target.write_text("")
    files = host.follow(Opening(FollowLinks.ALWAYS), store)
    files.turn()
    removed(host)
    target.write_text("more\n")
    files.files.close()
    files.opening = Opening()
    files.restart_closed()
    assert files.turn(6.0) == b""
    assert "app.log" in "".join(each.reason for each in files.unwatched if "refused" in each.reason)


def test_all_links_are_followed_where_that_is_said_but_for_penstocks_own_secrets(
    host: Host,
) -> None:
    to_a_file(host)
    key, data = host.file(host.etc / "agent.key", 0), host.folder("data", 0)
    host.file(data / "journal", 0)
    host.link(host.shop / "key.log", key)
    host.link(host.shop / "journal.log", data / "journal")
    (host.shop / "hard.log").hardlink_to(key)
    opening = Opening(FollowLinks.ALWAYS, SecretFiles((str(key),), str(data)))
    files = host.follow(opening)
    for _ in range(3):
        assert files.turn(6.0) in {b"text\n", b""}
    assert b"".join(data for _, _, data in files.read) == b"text\n"
    said = sorted(Path(each.path).name for each in files.of(Unreadable))
    assert said == ["hard.log", "journal.log"]  # key and hard are one file


def test_a_file_that_becomes_a_link_is_not_gone_on_with(host: Host) -> None:
    """Between two looks, and with the same bytes: by whatever a file is known, it is refused."""
    log = host.file(host.shop / "app.log", SHOP)
    files = host.follow()
    assert files.turn() == b"text\n"
    files.files.close()
    log.rename(host.etc / "app.log")  # the same inode, behind a link by now
    os.chown(host.etc / "app.log", 0, 0)
    (host.etc / "app.log").write_text("text\nmore\n")
    host.link(log, host.etc / "app.log")
    files.restart_closed()
    assert files.turn(6.0) == b""
    assert [each.path for each in files.of(Unreadable)] == [str(log)]


def test_an_agent_goes_by_its_configuration_and_names_what_it_refuses(host: Host) -> None:
    to_a_file(host)
    secret = host.file(host.etc / "password", 0)
    host.link(host.shop / "password.log", secret, 0)
    followed = Input(paths=(f"{host.shop}/*.log",), topic="t")
    text = f"""
        inputs: [{{paths: ["{host.shop}/*.log"], topic: t}}]
        brokers: ["127.0.0.1:9"]
        registry: http://127.0.0.1:9
        data_dir: {host.root}/data
        security: {{login: {{mechanism: SCRAM-SHA-512, user: a, password_file: {secret}}}}}
        drain: 0
    """
    agent = Agent(msgspec.yaml.decode(text, type=AgentConfig), [followed])
    agent.start()
    try:
        wait_until(lambda: agent.status().inputs[0].unreadable_files == 2)
        app, password = sorted(agent.status().inputs[0].unreadable, key=lambda each: each.path)
    finally:
        agent.stop()
    assert app.why.startswith("follow_links: ")
    assert password.why == "the file belongs to the agent itself"


def test_endless_links_and_no_files_are_errors_and_keep_nothing_open(host: Host) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    host.link(host.shop / "loop", "loop")
    host.file(host.shop / "app.log", SHOP)
    for number in range(30):
        host.link(host.shop / f"{number}.long", "./" + "../shop/" * 300 + f"{number + 1}.long")
    host.link(host.shop / "30.long", "app.log")
    os.mkfifo(host.shop / "pipe")
    for name in ("loop", "loop/x", "0.long", "pipe", "missing", "pipe/x"):
        with pytest.raises(OSError):
            Opening().open(str(host.shop / name))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
