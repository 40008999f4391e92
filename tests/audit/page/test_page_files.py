"""What holds for the files of the page without a browser: nothing from elsewhere, no HTML made of
text, nothing that nobody loads. (test_accessibility.py looks at colours.)"""

import re
from pathlib import Path
from typing import Final

import pytest

from audit.cures import runbook

PAGE: Final = Path(__file__).resolve().parents[3] / "audit" / "page"
SCRIPTS: Final = sorted((PAGE / "js").rglob("*.js"))
STYLES: Final = sorted((PAGE / "css").glob("*.css"))
DOCUMENTS: Final = [PAGE / "index.html", PAGE / "login.html"]
OWN: Final = [*DOCUMENTS, *SCRIPTS, *STYLES]
MOST_LINES: Final = 400

FORBIDDEN: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    r"|createContextualFragment|srcdoc|javascript:"
)
ELSEWHERE: Final = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w.-]+\.\w+/")
IMPORT: Final = re.compile(r'^import (?:\{([^}]*)\}|(\w+)) from "([^"]+)";$', re.MULTILINE)
EXPORT: Final = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_from_elsewhere_and_no_html_of_text(path: Path) -> None:
    text = path.read_text()
    assert FORBIDDEN.findall(text) == []
    assert ELSEWHERE.findall(text) == []
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_document_keeps_to_the_policy(path: Path) -> None:
    """`script-src 'self'` allows no script, style or listener within the document."""
    text = path.read_text()
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", text) == []
    for each in re.findall(r'(?:href|src)="static/([^"]+)"', text):
        assert (PAGE / each).is_file(), each


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_what_is_imported_is_exported_and_used(path: Path) -> None:
    text = path.read_text()
    rest = IMPORT.sub("", text)
    for names, default, source in IMPORT.findall(text):
        exported = (path.parent / source).resolve().read_text()
        for name in [each.strip() for each in names.split(",") if each.strip()]:
            assert name in EXPORT.findall(exported), f"{name} of {source}"
            assert re.search(rf"\b{name}\b", rest), f"{name} is imported for nothing"
        if default:
            assert f"export {{ {default} as default }}" in exported


def test_everything_is_loaded() -> None:
    index = runbook.page() + "".join(each.read_text() for each in DOCUMENTS)
    loaded = {PAGE / each for each in re.findall(r'"static/((?:js|css)/[^"]+)"', index)}
    waiting = [each for each in loaded if each.suffix == ".js"]
    while waiting:
        path = waiting.pop()
        for *_, source in IMPORT.findall(path.read_text()):
            found = (path.parent / source).resolve()
            if found not in loaded:
                loaded.add(found)
                waiting.append(found)
    assert set(SCRIPTS) | set(STYLES) <= loaded


def test_what_is_exported_is_imported() -> None:
    imported = {
        (name.strip(), (path.parent / source).resolve())
        for path in SCRIPTS
        for names, _, source in IMPORT.findall(path.read_text())
        for name in names.split(",")
    }
    exported = {(name, path) for path in SCRIPTS for name in EXPORT.findall(path.read_text())}
    assert exported - imported == set()


def test_the_chart_library_has_its_licence() -> None:
    folder = PAGE / "vendor" / "uplot"
    assert "Leon Sorokin" in (folder / "LICENSE").read_text()
    assert "uPlot.js" in (folder / "uPlot.esm.js").read_text()[:300]
