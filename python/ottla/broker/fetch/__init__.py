"""Fetch: reads whole record batches, and waits until there are enough of them.

`full.py` serves a request that names all it wants, `incremental.py` one in a session, whose state is in `session.py`.
Both read partitions in `read.py`, and wait in `wait.py`. `old.py` converts answers for clients that know only message
sets. What all of them share of one request is in `context.py`. A request of many partitions is read in slices
(`ottla.slices`), which keep it from holding up the others.

Records leave by sendfile: nothing here touches their bytes.
"""
