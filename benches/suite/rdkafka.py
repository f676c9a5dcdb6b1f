"""librdkafka's producer by its C interface: `python rdkafka.py JSON`, one run a process.

confluent-kafka's Python costs a microsecond a message, more than a broker does. The library that it brings is called
here through rd_kafka_produce_batch, which takes ten thousand messages at once, as rdkafka_performance does.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

PRODUCER, CONF_OK, MSG_F_COPY, ERR_QUEUE_FULL, UNASSIGNED = 0, 0, 2, -184, -1
AT_ONCE = 10_000


class Message(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


REPORT = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)


def library() -> ctypes.CDLL:
    """The library inside the package confluent-kafka."""
    import confluent_kafka

    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_topic_new"):
        getattr(found, name).restype = c_void_p
    found.rd_kafka_error_string.restype = c_char_p
    for name in ("rd_kafka_init_transactions", "rd_kafka_begin_transaction", "rd_kafka_commit_transaction"):
        getattr(found, name).restype = c_void_p
    return found


class Producer:
    """A producer of one topic whose messages that could not be delivered are counted."""

    def __init__(self, settings: dict[str, str], topic: str) -> None:
        self.rd = library()
        self.failed = 0
        conf = c_void_p(self.rd.rd_kafka_conf_new())
        text = ctypes.create_string_buffer(512)
        for name, value in settings.items():
            if self.rd.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, c_size_t(512)) != CONF_OK:
                sys.exit(f"librdkafka: {text.value.decode()}")
        self._report = REPORT(self._delivered)
        self.rd.rd_kafka_conf_set_dr_msg_cb(conf, self._report)
        self.handle = c_void_p(self.rd.rd_kafka_new(PRODUCER, conf, text, c_size_t(512)))
        if not self.handle:
            sys.exit(f"librdkafka: {text.value.decode()}")
        self.topic = c_void_p(self.rd.rd_kafka_topic_new(self.handle, topic.encode(), None))

    def _delivered(self, _: object, message: ctypes._Pointer[Message], __: object) -> None:
        # With delivery.report.only.error there are no others.
        self.failed += message.contents.err != 0

    def send(self, values: list[bytes], count: int) -> None:
        """`count` messages, the values in turns. Only what the queue refuses costs Python something."""
        template = (Message * AT_ONCE)()
        buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
        for index in range(AT_ONCE):
            buffer = buffers[index % len(buffers)]
            template[index].payload = ctypes.cast(buffer, c_void_p)
            template[index].len = len(buffer)
        block = (Message * AT_ONCE)()
        for start in range(0, count, AT_ONCE):
            ctypes.memmove(block, template, ctypes.sizeof(block))
            self._send_block(block, min(AT_ONCE, count - start))

    def _send_block(self, block: ctypes.Array[Message], size: int) -> None:
        done = 0
        while done < size:
            at = ctypes.byref(block, done * ctypes.sizeof(Message))
            taken = self.rd.rd_kafka_produce_batch(self.topic, UNASSIGNED, MSG_F_COPY, at, size - done)
            if taken < size - done:
                # Those that were refused stand where they stood, between those that were taken.
                refused = [index for index in range(done, size) if block[index].err]
                if problems := {block[index].err for index in refused} - {ERR_QUEUE_FULL}:
                    sys.exit(f"librdkafka: errors {problems}")
                for to, index in zip(reversed(range(size)), reversed(refused), strict=False):
                    block[to] = block[index]
                self.rd.rd_kafka_poll(self.handle, 5)
            done += taken

    def flush(self) -> None:
        if self.rd.rd_kafka_flush(self.handle, 120_000):
            sys.exit("librdkafka: not everything could be delivered within two minutes")

    def transaction(self, step: str) -> None:
        arguments = () if step == "begin_transaction" else (60_000,)
        problem = c_void_p(getattr(self.rd, f"rd_kafka_{step}")(self.handle, *arguments))
        if problem:
            sys.exit(f"librdkafka: {step}: {self.rd.rd_kafka_error_string(problem).decode()}")


def main() -> None:
    options = json.loads(sys.argv[1])
    settings = {"bootstrap.servers": options["bootstrap"], "delivery.report.only.error": "true", **options["settings"]}
    values = Path(options["payloads"]).read_bytes().splitlines()
    producer = Producer(settings, options["topic"])
    records, per_transaction = options["records"], options.get("per_transaction", 0)
    # Connecting and the first metadata are in it: a run has to be long beside them.
    begun = time.perf_counter()
    if per_transaction:
        producer.transaction("init_transactions")
        begun = time.perf_counter()
        for start in range(0, records, per_transaction):
            producer.transaction("begin_transaction")
            producer.send(values, min(per_transaction, records - start))
            producer.transaction("commit_transaction")
    else:
        producer.send(values, records)
        producer.flush()
    print(json.dumps({"seconds": time.perf_counter() - begun, "records": records, "failed": producer.failed}))


if __name__ == "__main__":
    main()
