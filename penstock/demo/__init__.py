"""`penstock demo`: the pipeline of `penstock up` with sample applications, and programs killed."""
