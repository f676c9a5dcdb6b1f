"""`ottla_broker` and `ottla_topic` are fixtures that pytest finds by itself."""

import orders

import ottla

FRUIT = [("alice", "pear"), ("bob", "plum"), ("alice", "plum")]


def test_orders_are_counted(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    orders.place(ottla_broker.bootstrap_servers, ottla_topic, FRUIT)
    assert orders.count(ottla_broker.bootstrap_servers, ottla_topic, ottla_topic, 3) == {"pear": 1, "plum": 2}


def test_a_group_goes_on_where_it_was(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    servers, group = ottla_broker.bootstrap_servers, ottla_topic
    orders.place(servers, ottla_topic, FRUIT)
    orders.count(servers, ottla_topic, group, 3)
    orders.place(servers, ottla_topic, [("carol", "fig")])
    assert orders.count(servers, ottla_topic, group, 1) == {"fig": 1}


def test_an_order_is_there_once_although_its_answer_was_lost(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    with ottla_broker.faults.add("Produce", topic=ottla_topic, close="after", times=1) as lost:
        orders.place(ottla_broker.bootstrap_servers, ottla_topic, FRUIT[:1])
        assert lost.hits == 1
    with ottla_broker.log(ottla_topic) as log:
        assert [record.value for record in log.records()] == [b"pear"]


def test_a_group_waits_for_its_coordinator(ottla_broker: ottla.Broker, ottla_topic: str) -> None:
    servers, group = ottla_broker.bootstrap_servers, ottla_topic
    orders.place(servers, ottla_topic, FRUIT)
    with ottla_broker.faults.add("FindCoordinator", group=group, error="COORDINATOR_NOT_AVAILABLE", times=3) as fault:
        assert orders.count(servers, ottla_topic, group, 3) == {"pear": 1, "plum": 2}
        assert fault.hits == 3


def test_no_order_is_lost_when_a_leader_dies() -> None:
    with ottla.Cluster(3) as cluster:
        cluster.create_topic("orders")
        orders.place(cluster.bootstrap_servers, "orders", FRUIT)
        assert orders.count(cluster.bootstrap_servers, "orders", "counts", 3) == {"pear": 1, "plum": 2}
        leader = cluster.leader("orders")
        assert leader is not None
        leader.kill()
        orders.place(cluster.bootstrap_servers, "orders", [("carol", "fig")])
        assert orders.count(cluster.bootstrap_servers, "orders", "counts", 1) == {"fig": 1}
