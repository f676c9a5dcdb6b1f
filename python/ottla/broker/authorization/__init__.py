"""Who may do what: access rules (ACLs), as Kafka's AclAuthorizer keeps them in the coordination tree.

`acls` is the model, `nodes` how the tree has it, and `snapshot` decides: none of them waits for anything.

Only tests have an authorizer, where `OTTLA_ACL=1` is set (`ottla.config.security.serves_acls`): the handlers do not all
ask yet.

Source: KIP-11, 50, 140, 290; AclAuthorizer.scala and ZkData.scala of Kafka 2.7.
"""
