"""A partition whose log's directory is out of use has this in the log's place."""

from ottla.kafka import NO_EPOCH


class NoLog:
    """In place of a log that is out of reach: what is asked of every log, about nothing."""

    start_offset = end_offset = high_watermark = flushed_offset = settled_offset = 0
    leader_epoch = NO_EPOCH
    first_unstable_offset = None
