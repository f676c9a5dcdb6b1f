"""`broker.faults`: errors, delays and silence that a test asks for, in the place of what would have happened."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.broker.faults.deeds import Asked, Deed
from ottla.broker.faults.names import Names, shape
from ottla.embedded.disk import Disk, DiskFault, DiskRule, Operation
from ottla.embedded.handle import Handle, RuleHandle
from ottla.embedded.kafka_names import apis, known_api, known_error
from ottla.embedded.plan import Plan
from ottla.embedded.random_faults import DEFAULTS, RandomFaults

if TYPE_CHECKING:
    from ottla.wire.schema import Api

When = Literal["before", "after"]
WHEN: Final = ("before", "after")


class Fault(RuleHandle):
    """One fault of requests: which requests it meets, what becomes of them, and how many it has met."""

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
        super().__init__(plan)
        self._api = api
        self._about = about
        self._client_id = client_id
        self._deed = deed
        self._times = times
        self._left_out = after

    def __repr__(self) -> str:
        return f"<fault in {'any request' if self._api is None else self._api.name}, {self.hits} hits>"

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
    """The faults of one broker. They stay when it is restarted, until they are removed or have met all that they were
    to meet.

    A request meets one fault: the first, in the order in which they were added, that fits and is due. While there is
    any the broker serves each request by itself, which is slower than otherwise.
    """

    def __init__(self, plan: Plan, disk: Disk) -> None:
        self._plan = plan
        self._disk = disk

    def __iter__(self) -> Iterator[Handle]:
        """Those that may meet something yet."""
        return iter([*(rule for rule in self._plan.rules if isinstance(rule, Handle)), *self._disk.faults])

    def __len__(self) -> int:
        return len(self._plan.rules) + len(self._disk.faults)

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
        delay: float = 0.0,
        answer: bool = True,
        close: When | None = None,
        disk: Operation | None = None,
        lost: bool = False,
    ) -> Fault | DiskFault:
        """Has something happen to requests of `api`, which has Kafka's name for it: "Produce". Without `api` it happens
        to requests of any.

        `topic`, `partition` and `group` tell which of them, by what they name, and `client_id` whose. Of those that
        fit, the first `after` are served, then `times` meet the fault, or all that come if it is None.

        One of these happens, after `delay` seconds or at once:

        - `error="NOT_LEADER_OR_FOLLOWER"`: the error is answered, and nothing is done. Where an answer has error codes
          for topics or partitions, those that are meant have the error, and the others are served.
        - `answer=False`: there is no answer, and the connection stays open until its client, or the end of the broker,
          closes it. What the client sends on it behind that has no answer either.
        - `close="before"`, `close="after"`: the connection is closed, without the work or when it is done.
        - none of these: it is only late.

        With `when="after"` the work is done first; then the error is answered, or nothing, or the answer is late, as if
        it was lost on its way. A Fetch has no work that could be lost: it fails before it reads in any case.

        Requests that brokers send to each other are not met, unless `api` is one that only they send. Returns when
        requests that come are met.

        With `disk="read"`, `"write"` or `"sync"` it happens to operations on the files with records instead, of all
        partitions or of those that `topic` and `partition` tell. The `error` is the system's ("ENOSPC", "EIO"), a
        `delay` is at most a minute, and `lost=True` has an fsync report success and make nothing durable. The broker
        does what it does with a real disk; after a failed fsync or read its log directory is out of use.

        Raises:
            ValueError: a name that nobody knows, or a choice that does not fit; the text says what is possible.
        """
        _check_counts(times, after)
        if disk is not None:
            only = {"when": None if when == "before" else when, "answer": None if answer else answer}
            _check_of_disk({"api": api, "group": group, "client_id": client_id, "close": close, **only})
            return self._disk.add(DiskRule(disk, error, lost, delay, topic, partition, after, times))
        if lost:
            raise ValueError("lost is about an fsync: say disk='sync'; an answer is lost with answer=False")
        known = None if api is None else known_api(api)
        about = Names(topic, partition, group)
        _check_names(known, about)
        deed = _deed(known, error, about, when, delay, answer, close)
        fault = Fault(self._plan, known, about, client_id, deed, times, after)
        self._plan.add_rule(fault)
        return fault

    def random(
        self,
        seed: int | None = None,
        share: float = 0.05,
        errors: Mapping[str, Sequence[str]] | None = None,
        *,
        client_id: str | None = None,
    ) -> RandomFaults:
        """Has a `share` of the requests fail, from 0 to 1, as if a cluster had a bad day.

        `errors` are those that may be answered, by API; without them it is those that each API has while leaders and
        coordinators move, which clients get over. Nothing is done of what fails.

        The same `seed` has the same requests fail with the same errors: the n-th of an API and a client, of which each
        has its own count. So a client that asks one thing after the other meets the same again. Without a seed one is
        chosen; `repr` and `seed` tell it.

        Raises:
            ValueError: an API or an error that nobody knows, or another share.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share}; it is a part of all requests, from 0 to 1")
        chosen = DEFAULTS if errors is None else errors
        by_key = {}
        for name, those in chosen.items():
            if isinstance(those, str) or not those:
                raise ValueError(f"errors of {name} are {those!r}; they are a list of names, with at least one")
            by_key[known_api(name).key] = {one: known_error(one) for one in those}
        made = RandomFaults(self._plan, secrets.randbelow(2**32) if seed is None else seed, share, by_key, client_id)
        self._plan.add_rule(made)
        return made

    def clear(self) -> None:
        """Removes all."""
        self._disk.clear()
        self._plan.remove_rules(lambda _: True)


def _check_counts(times: int | None, after: int) -> None:
    """Raises ValueError for what cannot be counted."""
    if times is not None and times < 1:
        raise ValueError(f"times is {times}; it is at least 1, or None for all")
    if after < 0:
        raise ValueError(f"after is {after}; it is the number of requests that are served first, from 0 on")


def _check_of_disk(of_requests: Mapping[str, object]) -> None:
    """Raises ValueError if something is given that only requests have."""
    for name, value in of_requests.items():
        if value is not None:
            raise ValueError(f"{name} is about requests, and disk about none of them: leave one of them out")


def _deed(
    api: Api[Any, Any] | None,
    error: str | None,
    about: Names,
    when: When,
    delay_s: float,
    answers: bool,
    close: When | None,
) -> Deed:
    """Raises ValueError for what does not fit together."""
    given = [
        name
        for name, is_given in (
            ("error", error is not None),
            ("answer=False", not answers),
            ("close", close is not None),
        )
        if is_given
    ]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are given: only one of them can happen")
    if not given and not delay_s:
        raise ValueError("nothing would happen: say an error, a delay, answer=False or close")
    if when not in WHEN or close not in (None, *WHEN):
        name, value = ("when", when) if when not in WHEN else ("close", close)
        raise ValueError(f"{name} is {value!r}; it may be 'before' or 'after' the work")
    if close is not None and when != "before":
        raise ValueError("close says itself if the work is done first; leave when out")
    if not delay_s >= 0:
        raise ValueError(f"delay is {delay_s}; it is a number of seconds, from 0 on")
    if delay_s and not answers:
        raise ValueError("an answer that never comes cannot be late: leave delay out")
    if error is not None and api is None:
        raise ValueError(f"an error needs the name of an API: say which of {', '.join(sorted(apis()))}")
    code = None if error is None else known_error(error)
    is_after = "after" in (when, close)
    return Deed(code, about, is_after, delay_s, answers, closes=close is not None)


def _check_names(api: Api[Any, Any] | None, about: Names) -> None:
    """Raises ValueError if the requests of an API do not name such things."""
    roles = set() if api is None else shape(api.request).roles()
    for role, wanted in zip(Names._fields, about, strict=True):
        if wanted is not None and role not in roles:
            those = sorted(name for name, one in apis().items() if role in shape(one.request).roles())
            which = f"a {role} needs the name of an API" if api is None else f"{api.name} names no {role}"
            raise ValueError(f"{which}; those that name one are {', '.join(those)}")
