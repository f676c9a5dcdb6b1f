"""Fetch: reads whole record batches, and waits until there are enough of them.

`full.py` serves a request that names all it wants, `incremental.py` one in a session, whose state is in `session.py`.
The hub may serve the plain requests of a session (`lending.py`). Each makes one object (`delayed_fetch.py`), which
reads partitions (`read.py`), waits if there is too little, and answers. `old.py` converts answers for clients that know
only message sets. The limits of one request are in `context.py`. A request of many partitions is read in slices
(`ottla.slices`), which keep it from holding up the others.

Records leave by sendfile: nothing here touches their bytes.
"""
