"""The service with a real broker, which fails on purpose. FastStream's own test broker has no network and no errors."""

import asyncio

from invoices import Invoice, Order, service

from ottla import Broker


async def answers(broker: Broker, orders: str, *sent: Order) -> list[Invoice]:
    """The invoices that the service writes, as another service reads them."""
    invoices = f"{orders}-invoices"
    await asyncio.to_thread(broker.create_topic, invoices)
    kafka = service(broker.bootstrap_servers, orders, invoices)
    arrived: asyncio.Queue[Invoice] = asyncio.Queue()

    @kafka.subscriber(invoices, auto_offset_reset="earliest")
    async def file(invoice: Invoice) -> None:
        await arrived.put(invoice)

    async with kafka:
        await kafka.start()
        for order in sent:
            await kafka.publish(order, orders)
        return [await asyncio.wait_for(arrived.get(), 60) for _ in sent]


def test_each_order_has_an_invoice(ottla_broker: Broker, ottla_topic: str) -> None:
    found = asyncio.run(answers(ottla_broker, ottla_topic, Order(fruit="pear", count=2), Order(fruit="plum", count=1)))
    assert found == [Invoice(text="2 pear", cents=100), Invoice(text="1 plum", cents=20)]


def test_an_invoice_waits_for_a_leader(ottla_broker: Broker, ottla_topic: str) -> None:
    with ottla_broker.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2) as moved:
        found = asyncio.run(answers(ottla_broker, ottla_topic, Order(fruit="pear", count=1)))
    assert moved.hits == 2
    assert found == [Invoice(text="1 pear", cents=50)]


def test_an_invoice_waits_for_a_coordinator(ottla_broker: Broker, ottla_topic: str) -> None:
    with ottla_broker.faults.add("JoinGroup", error="NOT_COORDINATOR", times=1) as moved:
        found = asyncio.run(answers(ottla_broker, ottla_topic, Order(fruit="plum", count=3)))
    assert moved.hits == 1
    assert found == [Invoice(text="3 plum", cents=60)]
