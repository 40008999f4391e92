"""Alert rules, by default those of mirrors, tried with figures by Prometheus's own tool."""

import shutil
import subprocess
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final

import pytest
import yaml

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "penstock-mirror.rules.yaml"

_FIRING: Final = 'ALERTS{alertstate="firing"}'


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not here: apt install prometheus")
    ended = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def check_alerts(
    directory: Path, *stories: tuple[Mapping[str, str], Set[str]], rules: Path = RULES
) -> None:
    """Series, once a minute for an hour and a half, and which alerts fire at some time of that."""
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": each} for name, each in series.items()],
            "promql_expr_test": [
                {
                    "expr": f"count by (alertname) (max_over_time({_FIRING}[89m]))",
                    "eval_time": "89m",
                    "exp_samples": [
                        {"labels": f'{{alertname="{each}"}}', "value": 1} for each in sorted(fire)
                    ],
                }
            ],
        }
        for series, fire in stories
    ]
    path = directory / "stories.yaml"
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": cases}
    path.write_text(yaml.safe_dump(document))
    assert "SUCCESS" in promtool("test", "rules", str(path))
