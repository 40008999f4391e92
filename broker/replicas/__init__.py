"""The replicas on this broker: opening, flushing, cleaning, cutting."""
