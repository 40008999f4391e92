"""The loader: from a cluster's topics into files in Hadoop, exactly once. Docs: docs/loader.md."""
