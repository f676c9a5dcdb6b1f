"""Who may do what: access rules (ACLs), as Kafka's AclAuthorizer keeps them in the coordination tree.

`ottla.wire.acls` is the model, `nodes` how the tree has it, and `snapshot` decides: none of them waits for anything.
`store` keeps the snapshot in step with the tree, and `authorizer` says what a client may. The `gate` asks before a
handler what a request needs as a whole; handlers ask for its rows. `waiting` has Fetches that wait read again when
rules change. `first_rules` adds rules to a tree without a broker.

While there is an authorizer the hub has no leases, for it does not know what a client may: every Produce and Fetch
comes to Python.

Source: KIP-11, 50, 140, 290; AclAuthorizer.scala and ZkData.scala of Kafka 2.7.
"""
