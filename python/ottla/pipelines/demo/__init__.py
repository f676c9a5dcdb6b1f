"""The demonstration: web requests through a broker into Spark, and a picture of them.

| module    | part                                                                      |
|-----------|---------------------------------------------------------------------------|
| `weblog`  | the input: a file of web requests, or a seeded one of the same format     |
| `produce` | into the broker, with a real client                                       |
| `job`     | the Spark job: requests and errors per hour, the most requested pages     |
| `direct`  | the same numbers from the file alone, by other code, to compare           |
| `picture` | what it looks like                                                        |
| `three`   | its second part: pipelines of `ottla.pipelines` on real data              |
"""
