"""Who may do what: access rules (ACLs), as Kafka's AclAuthorizer keeps them in the coordination tree.

`ottla.wire.acls` is the model, `nodes` how the tree has it, and `snapshot` decides: none of them waits for anything.
`store` keeps the snapshot in step with the tree, and `authorizer` says what a client may. The `gate` asks before a
handler what a request needs as a whole; handlers ask for its rows. `served_before` ends what was allowed by rules that
have changed. `first_rules` adds rules to a tree without a broker.

Under leases the hub serves Produces and Fetches without asking. It knows of a client only what was decided when a
request of it came here, and forgets it when rules change (`rust/direct/rights.rs`).

Source: KIP-11, 50, 140, 290; AclAuthorizer.scala and ZkData.scala of Kafka 2.7.
"""
