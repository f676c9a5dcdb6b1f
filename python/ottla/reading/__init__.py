"""Stretches of topics as Arrow batches, from brokers or from data directories: what `ottla.scan` and the Spark source
have in common.

| module                          | its part                                                                       |
|---------------------------------|--------------------------------------------------------------------------------|
| `options`, `topics`, `limits`   | what is read: partitions, and offsets or times on both sides                   |
| `bounds`, `wanted`              | limits into offsets, once it is known where partitions begin and end; no I/O   |
| `brokers`, `directory`          | the two places: where partitions begin and end there, and their records        |
| `fetching`, `sizes`             | of brokers: connections to leaders; bytes of a record                          |
| `segments`                      | of directories: a partition's files beside a broker that goes on writing them  |
| `ranges`, `layout`, `columns`   | what is left to read, and its rows in Arrow's memory                           |
| `damage`                        | batches that cannot be read                                                    |
| `scan`, `given`, `rows`, `lazy` | `ottla.scan`: its arguments, its columns, its frame in polars                  |
| `json_values`                   | JSON values as columns                                                         |
"""
