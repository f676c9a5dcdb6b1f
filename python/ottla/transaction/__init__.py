"""The transaction coordinator (KIP-98): who may write under a transactional id, and how its transactions end.

`transaction.py` is one transactional id's state and all its transitions; `records.py` how they stand in
`__transaction_state`; `shard.py` one partition of that topic; `outbox.py` which markers are still to be written;
`coordinator.py` what is done with each request. None of them does I/O. `service.py` loads and watches the clock,
`sender.py` carries markers to the partitions' leaders.
"""
