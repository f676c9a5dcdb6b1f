"""`broker.faults`: errors, delays and silence that a test asks for, in the place of what would have happened."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from ottla.broker.faults.deeds import Asked, Deed
from ottla.broker.faults.names import Names, shape
from ottla.embedded.hits import PATIENCE_S, Hits
from ottla.embedded.kafka_names import apis, known_api, known_error
from ottla.embedded.plan import Plan, Rule

if TYPE_CHECKING:
    from ottla.wire.schema import Api

When = Literal["before", "after"]
WHEN: Final = ("before", "after")


class Fault:
    """One fault: which requests it meets, what becomes of them, and how many it has met.

    As a context manager it is removed at the end of the block. All methods may be called from any thread.
    """

    def __init__(
        self,
        plan: Plan,
        api: Api[Any, Any] | None,
        about: Names,
        client_id: str | None,
        deed: Deed,
        times: int | None,
        after: int,
    ) -> None:
        self._plan = plan
        self._api = api
        self._about = about
        self._client_id = client_id
        self._deed = deed
        self._times = times
        self._left_out = after
        self._hits = Hits()

    def __repr__(self) -> str:
        return f"<fault in {'any request' if self._api is None else self._api.name}, {self.hits} hits>"

    @property
    def hits(self) -> int:
        """How many requests it has met. One is counted when it comes, before anything becomes of it."""
        return self._hits.count

    def wait(self, count: int = 1, timeout: float = PATIENCE_S) -> None:
        """Returns when it has met `count` requests. It stops the thread that calls it: in an event loop call it by
        `asyncio.to_thread` or `trio.to_thread.run_sync`.

        Raises:
            TimeoutError: it has met fewer in `timeout` seconds.
        """
        self._hits.wait(count, timeout, repr(self))

    def remove(self) -> None:
        """Ends it. Requests that come from now on are served; those that it keeps without an answer get none."""
        self._plan.remove_rules(lambda rule: rule is self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    # --- as a rule of the plan ---

    @property
    def is_spent(self) -> bool:
        return self._times is not None and self._hits.count >= self._times

    def decide(self, asked: Asked) -> Deed | None:
        if self.is_spent or not self._meets(asked):
            return None
        if self._left_out > 0:
            self._left_out -= 1
            return None
        self._hits.add()
        return self._deed

    def passed(self, asked: Asked) -> None:
        """Another fault was first: this one has not met the request."""

    def _meets(self, asked: Asked) -> bool:
        if self._client_id is not None and self._client_id != asked.client_id:
            return False
        if self._api is None:
            return not asked.is_of_broker
        if self._api.key != asked.api.key or (asked.is_of_broker and not self._api.is_between_brokers):
            return False
        return self._about == Names() or asked.is_about(self._about)


class Faults:
    """The faults of one broker. They stay when it is restarted, until they are removed or have met all requests that
    they were to meet.

    A request meets one fault: the first, in the order in which they were added, that fits and is due. While there is
    any the broker serves each request by itself, which is slower than otherwise.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __iter__(self) -> Iterator[Rule]:
        """Those that may meet a request yet."""
        return iter(self._plan.rules)

    def __len__(self) -> int:
        return len(self._plan.rules)

    def add(
        self,
        api: str | None = None,
        *,
        error: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
        after: int = 0,
        when: When = "before",
    ) -> Fault:
        """Has requests of `api` answered with `error`, both by Kafka's names: "Produce", "NOT_LEADER_OR_FOLLOWER".

        `topic`, `partition` and `group` tell which of them, by what they name. Where an answer has error codes for
        topics or partitions, those that are meant have the error, and the others are served. Of the requests that fit,
        the first `after` are served, then `times` meet the fault, or all that come if it is None.

        With `when="after"` the error is answered although the work is done, as if it was lost on its way. A Fetch does
        nothing that could be lost: it fails in any case before it reads.

        Requests that brokers send to each other are not met, unless `api` is one that only they send. Returns when
        requests that come are met.

        Raises:
            ValueError: a name that nobody knows, or a choice that this API does not have; the text says what is
                possible.
        """
        known = None if api is None else known_api(api)
        if error is None:
            raise ValueError("nothing would happen: say which error")
        if known is None:
            raise ValueError(f"an error needs the name of an API: say which of {', '.join(sorted(apis()))}")
        if when not in WHEN:
            raise ValueError(f"when is {when!r}; it may be 'before' or 'after' the work")
        if times is not None and times < 1:
            raise ValueError(f"times is {times}; it is at least 1, or None for all")
        if after < 0:
            raise ValueError(f"after is {after}; it is the number of requests that are served first, from 0 on")
        about = Names(topic, partition, group)
        _check_names(known, about)
        deed = Deed(known_error(error), about, when == "after")
        fault = Fault(self._plan, known, about, client_id, deed, times, after)
        self._plan.add_rule(fault)
        return fault

    def clear(self) -> None:
        """Removes all."""
        self._plan.remove_rules(lambda _: True)


def _check_names(api: Api[Any, Any], about: Names) -> None:
    """Raises ValueError if the requests of an API do not name such things."""
    roles = shape(api.request).roles()
    for role, wanted in zip(Names._fields, about, strict=True):
        if wanted is not None and role not in roles:
            those = sorted(name for name, one in apis().items() if role in shape(one.request).roles())
            raise ValueError(f"{api.name} names no {role}; those that do are {', '.join(those)}")
