"""The mirror: copies topics of one cluster to another, byte for byte, at the same offsets."""
