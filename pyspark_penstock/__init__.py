"""Classes that Spark unpickles on executors and finds by name: `spark.read.format("penstock")`.

Spark searches modules called `pyspark_…` for data sources, and pickles classes by their module's
name. That module must be importable where nothing of Penstock has been imported yet: so it is
beside the package `penstock`, and imports that first, which adds the programs' folders to the path.
"""

import penstock  # noqa: F401  puts the programs' folders on the path; must come first
from pyspark_penstock.landing import LandingSource
from pyspark_penstock.source import DefaultSource

__all__ = ["DefaultSource", "LandingSource"]
