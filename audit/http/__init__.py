"""What the audit serves: JSON for programs, a page for people, figures for Prometheus."""
