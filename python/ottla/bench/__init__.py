"""Load on a cluster and what it felt like: the work of `ottla bench`, without its terminal.

payloads     values and batches, encoded once
latencies    a histogram of bounded size
producing    batches out, as fast as they are answered or at a rate
consuming    batches in, as fast as they come
end_to_end   one record at a time, from its sending until it is here
"""
