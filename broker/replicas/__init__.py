"""The replicas on this broker: opens, flushes, cleans and cuts their logs."""
