"""The agent: follows log files and ships their lines to brokers, on two threads."""
