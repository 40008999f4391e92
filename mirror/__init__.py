"""The mirror: copies topics of a cluster into another one, offset by offset and byte by byte."""
