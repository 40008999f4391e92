"""The broker's configuration file, and the configs of brokers and topics."""
