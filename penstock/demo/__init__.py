"""`penstock demo`: runs the pipeline of `penstock up` with sample applications, and kills
programs."""
