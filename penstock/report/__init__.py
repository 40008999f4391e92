"""What the audit says and is told: `penstock report`, `penstock audit accept` and `retire`."""
