"""The audit log: who was denied what, who could not prove who it is, and if wanted who was allowed what.

A line is a JSON object. `repeats` leaves out what was said just before and counts it. `writer` keeps lines in memory,
up to a bound, until its thread has written them: no request waits for a disk. `file` is the file with the older ones
that it took turns with. `settings` reads what the broker's owner wants, and `audit` is what the broker calls.
"""
