"""`ottla doctor`: what people stumble over with a cluster, looked at from where a client is, with what to do about it.

It speaks Kafka's protocol to any broker, Ottla's or Apache's, and changes nothing unless it is told that it may write.
"""
