"""A service that writes an invoice for each order."""

from faststream.kafka import KafkaBroker
from pydantic import BaseModel


class Order(BaseModel):
    """An order as the shop writes it."""

    fruit: str
    count: int


class Invoice(BaseModel):
    """An invoice as the books want it."""

    text: str
    cents: int


PRICES = {"pear": 50, "plum": 20}


def service(servers: str, orders: str, invoices: str) -> KafkaBroker:
    """The service, which has not begun: it reads orders from one topic, and writes invoices to another."""
    kafka = KafkaBroker(servers)

    @kafka.publisher(invoices)
    @kafka.subscriber(orders, group_id="invoices", auto_offset_reset="earliest")
    async def write_invoice(order: Order) -> Invoice:
        return Invoice(text=f"{order.count} {order.fruit}", cents=order.count * PRICES[order.fruit])

    return kafka
