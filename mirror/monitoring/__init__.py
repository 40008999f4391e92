"""The mirror's metrics, pages and status."""
