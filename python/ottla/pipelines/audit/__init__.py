"""Whether what was produced arrived: counts per topic and time window at producer, broker and warehouse.

A pipeline that loses one record in ten thousand looks healthy everywhere: no tier knows what the tier before had. So
each producer counts what it sends and says so in messages of a topic of their own (`Tally`): per topic and window a
count, and the sum of the CRC-32 of the records' ids. The audit counts the same windows in the broker's log and in the
table that `warehouse_load` writes, and compares:

| found                      | how                                                                                  |
|----------------------------|--------------------------------------------------------------------------------------|
| double at the broker       | an id that is in the log more than once: a producer sent again what had arrived      |
| missing at the broker      | fewer different ids in the log than were produced                                    |
| foreign at the broker      | more different ids than were produced                                                |
| swapped at the broker      | as many as were produced, but not the same: some are missing, as many are foreign    |
| missing, double, foreign   | id by id: in the table less often than in the log, more often, or never in the log   |
| at the warehouse           |                                                                                      |

A tally does not name its records, so what is missing and what is foreign at the broker is told apart as long as not
both happen in one window of one producer; then it is "swapped", or the difference of both. Everything else is exact.
With `producer` (the field in which a record names its producer) the report says where; without it, only when.

Time is the records' own (CreateTime). A window is audited `late_s` after its end, and only when the table has the
records that lay in the log by then: what arrives later than that is not counted anywhere. Windows begin to be audited
with the first that a producer reports. Records must still be in the log then: let its retention be longer.

The report is a table of Parquet files, a file per span of windows, each appearing whole; a killed audit goes on behind
the last one.
"""

from ottla.pipelines.audit.run import EXAMPLE, Config, run
from ottla.pipelines.audit.tally import Tally

__all__ = ["EXAMPLE", "Config", "Tally", "run"]
