"""Who a client is: SASL on listeners, from the first token to the name that rights and quotas know.

A mechanism is a conversation of values (`exchange`): a token comes in, an answer goes out, and in the end there is a
name, or a refusal. `plain` and `scram` are two. `listeners` reads from the settings which mechanisms a listener has,
`credentials` keeps what the tree says of users, and `authentication` holds the conversations of all connections and
lets the hub's gate open.

Source: RFC 4422, 4616, 5802; KIP-12, 43, 84, 152, 368; SaslServerAuthenticator.java.
"""
