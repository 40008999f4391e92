"""The READMEs of the Ansible roles, generated from their argument specs.

`make reference` writes them and `make check` compares them. A test compares specs and defaults.
"""

from pathlib import Path
from typing import Any, Final

import yaml

ROLES: Final = Path(__file__).resolve().parent / "ansible" / "roles"
_SPECS: Final = "meta/argument_specs.yml"


def roles() -> list[Path]:
    """Returns the folders of roles with argument specs, sorted by name."""
    return sorted(path.parent.parent for path in ROLES.glob(f"*/{_SPECS}"))


def specs(role: Path) -> dict[str, Any]:
    """Returns a role's argument specs by entry point."""
    specs_by_entry: dict[str, Any] = yaml.safe_load((role / _SPECS).read_text())["argument_specs"]
    return specs_by_entry


def defaults(role: Path) -> dict[str, Any]:
    path = role / "defaults" / "main.yml"
    variables: dict[str, Any] = (yaml.safe_load(path.read_text()) if path.exists() else None) or {}
    return variables


def page(role: Path) -> str:
    lines = [f"# Role `penstock.pipeline.{role.name}`", ""]
    default_values = defaults(role)
    for entry, spec in specs(role).items():
        if entry != "main":
            lines += [f"## Entry point `{entry}`", ""]
        lines += [_sentence(spec["short_description"]), ""]
        for paragraph in _texts(spec.get("description", [])):
            lines += [paragraph, ""]
        if options := spec.get("options"):
            lines += _table(options, default_values if entry == "main" else {})
            for name, option in _nested(options):
                lines += [f"Keys of `{name}`:", "", *_table(option, {})]
    lines.append("[All roles](../../README.md)")
    return "\n".join(lines) + "\n"


def _nested(options: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    pairs = []
    for name, option in options.items():
        if inner_options := option.get("options"):
            pairs += [(prefix + name, inner_options), *_nested(inner_options, f"{prefix}{name}.")]
    return pairs


def _table(options: dict[str, Any], standard: dict[str, Any]) -> list[str]:
    rows = ["| variable | type | default | |", "|---|---|---|---|"]
    for name, option in options.items():
        value = option.get("default", standard.get(name))
        if option.get("required"):
            default_text = "required"
        elif value is None or value in ("", [], {}):
            default_text = ""
        else:
            default_text = f"`{_shown(value)}`"
        words = " ".join(_texts(option["description"]))
        if choices := option.get("choices"):
            words += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
        kind = option.get("type", "str")
        if elements := option.get("elements"):
            kind = f"{kind} of {elements}"
        rows.append(f"| `{name}` | {kind} | {_cell(default_text)} | {_cell(words)} |")
    return [*rows, ""]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return " ".join(value.split())
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _texts(description: str | list[str]) -> list[str]:
    return [description] if isinstance(description, str) else description


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
