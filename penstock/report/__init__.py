"""Commands about the audit's findings: `penstock report`, `alert`, `audit accept` and `retire`."""
