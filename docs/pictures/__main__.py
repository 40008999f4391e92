"""Takes the pictures of the README: `make pictures`, in about two minutes.

    python -m docs.pictures            takes them; needs Chromium, Java, and root or user namespaces
    python -m docs.pictures --check    names what has changed since its picture was taken, and fails

A shop on three hosts (shop.py) is recorded in a terminal while an agent is killed and comes back.
Then its logs get some hours of history, its broker loses what it had acknowledged, and a browser
takes the audit's page.
"""

import argparse
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect, sync_playwright

from docs.pictures import film, png
from docs.pictures.shop import AGENT_FILE, PENSTOCK, Shop, now_and_then
from docs.pictures.shown import DARK, KEY, LIGHT, RECORDING, ROOT, Picture, stale
from docs.pictures.terminal import Terminal
from penstock.demo.applications.shop import SHOP
from tests.audit.page.browsing import ARGUMENTS, CHROMIUM

_COLUMNS: Final = 96
_ROWS: Final = 26
_WATCHED: Final = 4  # seconds from one picture to the next
_WIDTH, _HEIGHT = 1280, 800
_LINES_MEANWHILE: Final = 5_000
_LINES_LOST: Final = 1_600
_PATIENCE_MILLIS: Final = 120_000
_MOST_BYTES: Final = {LIGHT: 120_000, DARK: 120_000, RECORDING: 150_000}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.pictures", allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="take none; fail if one is old")
    parser.add_argument("--folder", type=Path, help="keep what runs in this folder")
    arguments = parser.parse_args()
    if arguments.check:
        old = list(stale())
        print("\n".join(old), file=sys.stderr, end="\n" if old else "")
        return 1 if old else 0
    if why := _why_not():
        print(f"no pictures: {why}", file=sys.stderr)
        return 1
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="penstock-pictures-"))
    try:
        with Shop(folder) as shop:
            shop.until_complete()
            _save(RECORDING, _recorded(shop).encode())
            shop.write_history()
            shop.until_complete()
            _break(shop)
            for picture, png_file in _taken(shop):
                _save(picture, png.small(png_file, {KEY: picture.fingerprint()}))
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _why_not() -> str:
    if not Path(CHROMIUM).exists():
        return f"there is no {CHROMIUM}: Debian's package chromium"
    hidden = [each for each in ("/srv", "/var/log") if ROOT.is_relative_to(each)]
    return (
        f"the repository is below {hidden[0]}, which the hosts have of their own" if hidden else ""
    )


def _recorded(shop: Shop) -> str:
    """An agent is killed, lines are written meanwhile, it comes back, and the report is green."""
    host = shop.web_2
    agent = shop.agents[host.name]
    terminal = Terminal(_COLUMNS, _ROWS, shop.environment(host))

    def typed(line: str, until: Callable[[], bool] | None = None) -> None:
        program, *arguments = shlex.split(line, comments=True)
        words = [*PENSTOCK, *arguments] if program == "penstock" else [program, *arguments]
        terminal.run(f"{host.name}$", line, host.inside(*words), until)

    terminal.title = "three hosts, and every line has arrived"
    typed("penstock report --day today")
    terminal.title = f"the agent on {host.name} is killed"
    typed(f"kill -9 {agent.pid}    # penstock agent")
    agent.kill()
    time.sleep(1)  # their times, too, are after the kill
    host.write(SHOP, now_and_then(_LINES_MEANWHILE, 1))
    terminal.title = f"the shop on {host.name} writes {_LINES_MEANWHILE:,} lines meanwhile"
    typed(f"penstock status --watch {_WATCHED}", _lasting(lambda: terminal.shows("silent")))
    typed("penstock report shop --day today")
    terminal.title = "the agent is started again"
    terminal.run(f"{host.name}$", f"penstock agent --config {AGENT_FILE} &", ["true"])
    agent.spawn()
    shop.until_complete()
    terminal.title = "every line has arrived, once"
    typed("penstock report shop --day today")
    if not terminal.shows("✓ up to"):
        raise SystemExit(
            "the last report is not complete: this machine is too busy for a recording"
        )
    title = (
        f"A terminal: the agent on {host.name} is killed, {_LINES_MEANWHILE:,} lines are written"
        " meanwhile, it is started again, and penstock report says that every line arrived."
    )
    shown = f"{KEY} {RECORDING.fingerprint()}"
    return film.svg(film.paced(terminal.frames), _COLUMNS, _ROWS, title=title, comment=shown)


def _lasting(condition: Callable[[], bool]) -> Callable[[], bool]:
    """Whether it has been true for as long as it takes to read."""
    since: list[float] = []

    def has_lasted() -> bool:
        if condition():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] > 2 * _WATCHED

    return has_lasted


def _break(shop: Shop) -> None:
    """The broker loses acknowledged events of web-2, and the audit has found it out."""
    shop.lose_last_writes(SHOP, lambda: shop.web_2.write(SHOP, now_and_then(_LINES_LOST, 40)))


def _taken(shop: Shop) -> Iterator[tuple[Picture, bytes]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*ARGUMENTS, "--disable-lcd-text"]
        )
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme="light")
        page.goto(shop.addresses.audit)
        page.mouse.move(9, 9)  # only a page that somebody reads has a stream
        _until_settled(page)
        yield LIGHT, page.screenshot(animations="disabled")
        page.emulate_media(color_scheme="dark")
        yield DARK, page.screenshot(animations="disabled")
        browser.close()


def _until_settled(page: Page) -> None:
    """Until the finding is there, the broker is back, and alerts from before are over."""
    expect.set_options(timeout=_PATIENCE_MILLIS)
    expect(page.locator("h1")).to_contain_text("issing in the files")
    expect(page.locator("#notices .notice")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("over since")
    expect(page.locator("#live")).to_have_attribute("data-live", "live")


def _save(picture: Picture, content: bytes) -> None:
    picture.path.write_bytes(content)
    print(f"{picture.path.relative_to(ROOT)}: {len(content):,} bytes, {datetime.now(UTC):%H:%M:%S}")
    if len(content) > _MOST_BYTES[picture]:
        raise SystemExit(f"{picture.path.name} is larger than {_MOST_BYTES[picture]:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
