"""OpenLineage's datasets of loads and hours. Imported only where Airflow's provider for OpenLineage
is installed.

Names are those of OpenLineage's naming rules: a topic is `kafka://BROKER` and its name, a table the
filesystem and the path of its folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    data_quality_assertions_dataset,
    data_quality_metrics_input_dataset,
    output_statistics_output_dataset,
)

from airflow_providers_penstock.hour_verdicts import HourQuestion, State, Verdict
from airflow_providers_penstock.load_outcomes import hours_of, tables_of

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


@attrs.define
class CompletenessDatasetFacet(DatasetFacet):
    """The hours of a table that a load declared complete, or found to lack rows."""

    complete: Sequence[str] = ()
    incomplete: Sequence[str] = ()


def of_load(report: Mapping[str, Any]) -> OperatorLineage:
    """The topics that a load has read, and the tables with their new rows."""
    tables = list(tables_of(report))
    brokers = report.get("brokers") or [""]
    topics = sorted({read["topic"] for table in tables for read in table.get("ranges") or ()})
    return OperatorLineage(
        inputs=[InputDataset(f"kafka://{brokers[0]}", topic) for topic in topics],
        outputs=[_table(str(report.get("root")), table) for table in tables],
    )


def of_hour(question: HourQuestion, verdict: Verdict) -> OperatorLineage:
    """The tables with the hour, and whether it is complete as an assertion."""
    is_complete = verdict.state is State.COMPLETE
    return OperatorLineage(
        inputs=[
            InputDataset(
                *dataset_name(tier.destination, question.topic),
                inputFacets={
                    "dataQualityMetrics": (
                        data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
                            columnMetrics={}, rowCount=tier.events
                        )
                    ),
                    "dataQualityAssertions": (
                        data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                            [
                                data_quality_assertions_dataset.Assertion(
                                    assertion=f"every line of {question.words} is accounted for",
                                    success=is_complete,
                                )
                            ]
                        )
                    ),
                },
            )
            for tier in verdict.tiers
            if tier.name == "hdfs"
        ]
    )


def dataset_name(root: str, table: str) -> tuple[str, str]:
    """Returns the namespace and the name of a table below a root."""
    url = urlsplit(root)
    path = f"{url.path.rstrip('/')}/{table}"
    if url.scheme == "file":
        return "file", path
    scheme = _SCHEMES.get(url.scheme, url.scheme)
    return f"{scheme}://{url.netloc}", path.lstrip("/") if scheme == "s3" else path


def _table(root: str, table: Mapping[str, Any]) -> OutputDataset:
    return OutputDataset(
        *dataset_name(root, str(table.get("table"))),
        facets={
            "penstock_completeness": CompletenessDatasetFacet(
                complete=hours_of(table, "complete"), incomplete=hours_of(table, "incomplete")
            )
        },
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=table.get("rows"), size=table.get("bytes"), fileCount=table.get("files")
            )
        },
    )
