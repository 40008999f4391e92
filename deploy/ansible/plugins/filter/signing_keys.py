"""Filters over signing keys: the programs of a host that have one, and the folder of enrolled
keys."""

from __future__ import annotations

import json
from pathlib import Path

_DATA = "/var/lib/penstock"
_REVOKED = "revoked"
_SUFFIX = ".pub"


def signing_programs(groups: list[str], variables: dict) -> list[dict]:
    """Returns the programs of a host that sign: `name`, `kind`, and the directory of the key."""
    programs = []
    if "penstock_broker" in groups:
        instances = variables.get("penstock_broker_instances") or [{"id": ""}]
        for number, instance in enumerate(instances):
            suffix = f"-{instance['id']}" if number else ""
            own = instance.get("data_dir") or (
                variables.get("penstock_broker_data_dir") if not number else ""
            )
            directory = own or f"{_DATA}/broker{suffix}"
            programs.append({"name": f"broker{suffix}", "kind": "broker", "directory": directory})
    for kind, default in (("mirror", "mirror"), ("audit", "audit"), ("agent", "agent")):
        if f"penstock_{kind}" in groups:
            config = variables.get(f"penstock_{kind}_config") or {}
            directory = config.get("data_dir") or f"{_DATA}/{default}"
            programs.append({"name": kind, "kind": kind, "directory": directory})
    if "penstock_loader" in groups:
        key = (variables.get("penstock_loader_config") or {}).get("signing_key")
        directory = str(Path(key).parent) if key else f"{_DATA}/load"
        programs.append({"name": "loader", "kind": "loader", "directory": directory})
    return programs


def key_lines(results: list[dict], name: str = "") -> str:
    """Returns the keys that `penstock signing-keys make` has printed on hosts, a line for each. The
    program has the given name, or that of the loop's item."""
    lines = []
    for result in results:
        if result.get("rc") == 0 and result.get("stdout"):
            key = json.loads(result["stdout"])
            lines.append(json.dumps({**key, "program": name or result["item"]["name"]}))
    return "\n".join(lines)


def without_key(results: list[dict]) -> list[dict]:
    """Returns the outcomes on hosts that run a release which signs nothing."""
    return [result for result in results if "no such command" in (result.get("stderr") or "")]


def key_files(folder: str) -> dict[str, str]:
    """Returns the content of the files that the audit reads, by their paths below the folder."""
    root = Path(folder)
    paths = [*root.glob(f"*{_SUFFIX}"), *root.glob(f"*/*{_SUFFIX}"), *root.glob(_REVOKED)]
    return {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in sorted(paths)
        if path.is_file()
    }


class FilterModule:
    def filters(self) -> dict:
        return {
            "key_files": key_files,
            "key_lines": key_lines,
            "signing_programs": signing_programs,
            "without_key": without_key,
        }
