"""Follows the files of all inputs: finds them, notices their changes, and reads their bytes.

`agent.recognition` decides which source a file is; `agent.history` records events of names. This
package does not interpret the files' content.
"""
