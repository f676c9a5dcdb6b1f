"""The coordination tree: interface (`tree`), ZooKeeper (`zookeeper`), one file (`embedded`), paths and JSON
(`znodes`).
"""
