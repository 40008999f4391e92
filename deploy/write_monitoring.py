"""Writes what Grafana and Prometheus are given of the audit: `python deploy/write_monitoring.py`,
from the root of the repository, after the figures have changed."""

from pathlib import Path

from audit.grafana import dashboard
from audit.prometheus_rules import rules

FOLDER = Path(__file__).resolve().parent
FILES = {
    FOLDER / "grafana" / "penstock-audit.json": dashboard,
    FOLDER / "prometheus" / "penstock-audit.rules.yaml": rules,
}

if __name__ == "__main__":
    for path, text in FILES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text())
