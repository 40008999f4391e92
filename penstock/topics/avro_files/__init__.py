"""Container files of Avro's, as `consume` and `produce` write and read them."""
