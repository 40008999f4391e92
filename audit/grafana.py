"""A dashboard for Grafana, from the audit's own figures. Pure; the file is
deploy/grafana/penstock-audit.json, to be imported as it is."""

import json
from collections.abc import Sequence
from typing import Any, Final

from audit.prometheus_rules import full

_WIDTH: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = '{cluster=~"$cluster",topic=~"$topic"}'
_CLUSTER: Final = '{cluster=~"$cluster"}'
_STATES: Final = (
    ("complete", "green"),
    ("pending", "blue"),
    ("unknown", "yellow"),
    ("missing", "red"),
    ("duplicated", "orange"),
    ("changed", "purple"),
)


def dashboard() -> str:
    """The file's text."""
    described = {
        "uid": "penstock-audit",
        "title": "Penstock audit",
        "description": "What became of every event: the audit's own page names what is missing.",
        "tags": ["penstock"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), _variable("cluster"), _variable("topic")]},
        "annotations": {"list": []},
        "panels": _placed(_rows()),
    }
    return json.dumps(described, indent=2) + "\n"


def _rows() -> list[tuple[int, list[dict[str, Any]]]]:
    """Panels by row, each as high as it says."""
    return [
        (
            4,
            [
                _stat("Worst topic", f"max(<topic_state>{_CHOSEN})", mapped=True),
                _stat("Topics unknown", f"count(<topic_state>{_CHOSEN} == 2)", bad=True),
                _stat("Missing events", f"sum(<topic_missing_events>{_CHOSEN})", bad=True),
                _stat("Events too many", f"sum(<topic_excess_events>{_CHOSEN})", bad=True),
                _stat("Windows that wait", f"sum(<topic_pending_windows>{_CHOSEN})"),
                _stat("Tables not loaded", f"count(<load_failing_seconds>{_CHOSEN})", bad=True),
                _stat("Alerts", "<alerts>", bad=True),
                _stat("Ledgers not read", f"count(<cluster_reachable>{_CLUSTER} == 0)", bad=True),
            ],
        ),
        (
            9,
            [
                _states("Topics", f"<topic_state>{_CHOSEN}"),
                _lines(
                    "Events of the last day by tier",
                    (
                        f"sum by (topic, tier, destination) (<topic_events>{_CHOSEN})",
                        "{{topic}} {{tier}} {{destination}}",
                    ),
                ),
            ],
        ),
        (
            8,
            [
                _lines("Faults", (f"<topic_findings>{_CHOSEN}", "{{cluster}}/{{topic}}")),
                _lines(
                    "Waiting since",
                    (f"<topic_pending_seconds>{_CHOSEN}", "{{cluster}}/{{topic}}"),
                    unit="s",
                ),
                _lines(
                    "Agents",
                    (f"sum by (cluster, state) (<agents>{_CLUSTER})", "{{cluster}} {{state}}"),
                ),
            ],
        ),
        (
            8,
            [
                _lines(
                    "Ledger: entries a second",
                    (f"rate(<ledger_entries_total>{_CLUSTER}[5m])", "{{cluster}}"),
                    (f"rate(<ledger_repeated_total>{_CLUSTER}[5m])", "{{cluster}} again"),
                    (f"rate(<ledger_left_out_total>{_CLUSTER}[5m])", "{{cluster}} left out"),
                    (f"rate(<ledger_gaps_total>{_CLUSTER}[5m])", "{{cluster}} gone"),
                ),
                _lines(
                    "Ledger: entries still to be read",
                    (f"<ledger_behind_entries>{_CLUSTER}", "{{cluster}}"),
                ),
                _lines(
                    "Ledger: read to its end",
                    (f"<ledger_age_seconds>{_CLUSTER}", "{{cluster}}"),
                    unit="s",
                ),
            ],
        ),
        (
            8,
            [
                _lines(
                    "Folding a chunk",
                    (_quantile("0.5", "fold_seconds", "le"), "p50"),
                    (_quantile("0.99", "fold_seconds", "le"), "p99"),
                    unit="s",
                ),
                _lines(
                    "Answers, p95",
                    (_quantile("0.95", "request_seconds", "le, route"), "{{route}}"),
                    unit="s",
                ),
                _lines(
                    "Webhook: requests",
                    ("increase(<webhook_posts_total>[5m])", "{{outcome}}"),
                ),
            ],
        ),
    ]


def _quantile(share: str, name: str, by: str) -> str:
    return f"histogram_quantile({share}, sum by ({by}) (rate(<{name}_bucket>[5m])))"


def _placed(rows: Sequence[tuple[int, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for height, panels in rows:
        width = _WIDTH // len(panels)
        for number, panel in enumerate(panels):
            position = {"x": number * width, "y": y, "w": width, "h": height}
            found.append({"id": len(found) + 1, "gridPos": position, **panel})
        y += height
    return found


def _panel(kind: str, title: str, targets: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": full(expression),
                "legendFormat": legend,
            }
            for number, (expression, legend) in enumerate(targets)
        ],
    }


def _stat(
    title: str, expression: str, *, mapped: bool = False, bad: bool = False
) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if bad:
        steps.append({"color": "red", "value": 1})
    defaults: dict[str, Any] = {
        "unit": "short",
        "noValue": "0",
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if mapped:
        defaults["mappings"] = _mappings()
    return {
        **_panel("stat", title, [(expression, "")]),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background"},
    }


def _states(title: str, expression: str) -> dict[str, Any]:
    return {
        **_panel("state-timeline", title, [(expression, "{{cluster}}/{{topic}}")]),
        "fieldConfig": {"defaults": {"mappings": _mappings()}, "overrides": []},
        "options": {"mergeValues": True, "showValue": "never"},
    }


def _lines(title: str, *targets: tuple[str, str], unit: str = "short") -> dict[str, Any]:
    return {
        **_panel("timeseries", title, targets),
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
    }


def _mappings() -> list[dict[str, Any]]:
    options = {
        str(number): {"text": text, "color": color, "index": number}
        for number, (text, color) in enumerate(_STATES)
    }
    return [{"type": "value", "options": options}]


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "current": {}}


def _variable(label: str) -> dict[str, Any]:
    query = full(f"label_values(<topic_state>, {label})")
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
