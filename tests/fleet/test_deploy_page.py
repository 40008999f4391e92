"""What docs/deploy.md says to type is typed, on three empty hosts with the inventory that it shows:
from there to the verdict, and not a word more.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from harness.hosts.hosts import Ended, Host
from tests.docs.output import missing_line
from tests.docs.pages import ROOT, Block, blocks_of
from tests.fleet import releases
from tests.fleet.fleet import Fleet
from tests.fleet.marked import plays_on_hosts

BLOCKS: Final = blocks_of(ROOT / "docs/deploy.md")
ADDRESSES: Final = {"dc1-a": "10.0.0.11", "dc1-b": "10.0.0.12", "dc1-c": "10.0.0.13"}
_PATIENCE: Final = 300.0
_DAY: Final = 86_400

pytestmark = plays_on_hosts(1_800)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, {name: Host(java=True) for name in ADDRESSES}) as fleet:
        yield fleet


def test_three_empty_hosts_until_the_verdict(fleet: Fleet) -> None:
    folder = fleet.directory / "controller"
    releases.made(releases.working_tree()).copy_to(folder / "release")
    inventory = next(each for each in BLOCKS if each.language == "yaml")
    (folder / "inventory.yml").write_text(aimed(fleet, inventory))
    printed = ""
    for block in BLOCKS:
        while time.time() % _DAY > _DAY - _PATIENCE:  # the page asks about today
            time.sleep(1)
        if block.is_output:
            missing = missing_line(block.text, printed)
            assert missing is None, f"{block.where}: not printed: {missing}\n{printed}"
        elif any(Path(__file__).name in remark for remark in block.remarks):
            printed = typed(fleet, block, folder).stdout
    proof = next(each for each in BLOCKS if each.is_tried_again)
    more = fleet.typed(aimed(fleet, proof).replace("--at-least 3", "--at-least 4"), folder)
    assert more.exit_code == 6, more.stdout + more.stderr
    assert more.stderr == "app: 3 of at least 4 events\n"


def aimed(fleet: Fleet, block: Block) -> str:
    """With the addresses that hosts have here."""
    text = block.text
    for name, shown in ADDRESSES.items():
        text = text.replace(shown, fleet.addresses[name])
    return text


def typed(fleet: Fleet, block: Block, folder: Path) -> Ended:
    until = time.monotonic() + _PATIENCE
    ended = fleet.typed(aimed(fleet, block), folder)
    while ended.exit_code and block.is_tried_again and time.monotonic() < until:
        time.sleep(2)
        ended = fleet.typed(aimed(fleet, block), folder)
    assert ended.exit_code == 0, f"{block.where}: {ended.stdout[-4000:]}{ended.stderr[-4000:]}"
    return ended
