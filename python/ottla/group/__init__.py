"""Consumer groups: the coordinator of the classic protocol (KIP-62, KIP-345, KIP-394) and committed offsets.

`state.py` is a group's state machine, `offsets.py` what it has committed, `records.py` what both look like in
`__consumer_offsets`, `loading.py` how they come back from there. None of these does I/O; `coordinator.py` ties them to
the log, to time and to whoever waits for an answer.
"""
