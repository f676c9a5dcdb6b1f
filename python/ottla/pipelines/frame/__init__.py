"""The parts that pipelines share.

| module     | part                                                                   |
|------------|------------------------------------------------------------------------|
| `config`   | TOML files into checked values; errors name the key                    |
| `catalog`  | which pipelines there are                                              |
| `progress` | what is shown while they run                                           |
| `picture`  | how pictures of results look                                           |
| `between`  | from topics to topics: streams into the sink, topics made ready for it |
"""
