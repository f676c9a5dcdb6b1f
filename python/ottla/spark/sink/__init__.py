"""The sink: `write.format("ottla")` and `writeStream.format("ottla")`.

| file           | what                                                                                     |
|----------------|------------------------------------------------------------------------------------------|
| `writer`       | what Spark calls                                                                         |
| `options`      | options and their refusals                                                               |
| `rows`         | columns, and their memory as Rust reads it                                               |
| `task`         | one task: rows out, in a transaction that stays open                                     |
| `protocol`     | exactly once, as values: who decides what                                                |
| `decisions`    | the topic of decisions                                                                   |
| `commit`       | the driver: decide, commit, abort, clean up                                              |
| `hooks`        | named points at which tests stop a commit                                                |
"""
