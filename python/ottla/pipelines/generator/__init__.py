"""Invented activity of a web site, to try pipelines with: the same seed gives the same bytes, and the true answers.

| module       | part                                                                                        |
|--------------|---------------------------------------------------------------------------------------------|
| `settings`   | how much of what there is                                                                   |
| `randomness` | numbers that are the same with every version of NumPy                                       |
| `activity`   | the events, in columns, in the order in which they arrive                                   |
| `lines`      | events as JSON, and their keys                                                              |
| `output`     | into a topic or a file                                                                      |
| `answers`    | what pipelines ought to find, counted from the columns; shares nothing with any pipeline    |

Events are page views, impressions (an item was shown), clicks (on an impression), searches, logins and profile
updates. Members and items follow Zipf's law, so that some keys are very busy; days have a rhythm; a few crawlers ask
for page after page; some events arrive late, and some twice (at-least-once producers do that), with the same `id`.
"""
