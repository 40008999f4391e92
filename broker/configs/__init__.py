"""The broker's file, and the configs of brokers and topics."""
