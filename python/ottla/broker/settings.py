"""The settings that hold now: the broker's own and each topic's, as the coordination tree has them.

Whoever changes one writes `/config/...` and then a notification; every broker hears it and takes the change without a
restart.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import trio

from ottla.config import BrokerConfig, ConfigError, UnknownSetting
from ottla.config.dynamic import OF_LOGS, changed, usable
from ottla.config.passwords import OLD_SECRET, SECRET, encoded_anew, is_password
from ottla.config.security import IGNORED
from ottla.config.topic import understood
from ottla.controller.config_changes import watch_config_changes
from ottla.controller.configs import Entity, get_config, get_configs, set_config
from ottla.coordination import znodes
from ottla.coordination.tree import Tree
from ottla.coordination.znodes import MalformedNode
from ottla.logging_setup import Repeated, hide
from ottla.slices import in_slices

logger = logging.getLogger("ottla.settings")

#: the name under /config/brokers of what all brokers share
DEFAULT = "<default>"
#: stands for both nodes, where one of them contradicts the other
TOGETHER = "both"


async def decoded(
    config: BrokerConfig, settings: Mapping[str, str], *, for_one_broker: bool
) -> tuple[dict[str, str], list[ConfigError]]:
    """The settings and problems that `usable` gives. The keys of passwords are made on a thread, without holding Python
    up: the number of rounds that they were encoded with says how long that takes.
    """
    look = partial(
        usable,
        settings,
        for_one_broker=for_one_broker,
        passwords=config.password_encoder,
        ignored=config.get_list(IGNORED),
    )
    return await trio.to_thread.run_sync(look) if any(map(is_password, settings)) else look()


class Settings:
    """`config` is the broker's, with what was changed while brokers ran; `topics` each topic's own settings as text.

    A value that is not understood keeps everything in the logs that it holds for (`keeps_everything`) until it is
    mended: a topic's value in the logs of the topic, a broker's setting for logs in all of them. A change that arrives
    while the broker serves, and brings such a value, has no effect as a whole.
    """

    def __init__(self, tree: Tree, static: BrokerConfig, broker_id: int) -> None:
        self.config = static
        self.topics: dict[str, dict[str, str]] = {}
        self._tree = tree
        self._broker_id = broker_id
        #: The last settings that could be understood, by the node's name under /config/brokers.
        self._dynamic: dict[str, dict[str, str]] = {}
        #: Beside them, the text of those that were not understood. A change that leaves these as they are is taken.
        self._refused: dict[str, dict[str, str | None]] = {}
        #: Why settings are not understood: those of topics by the topic's name, those under /config/brokers by the
        #: node's name.
        self.topics_not_understood: dict[str, str] = {}
        self.brokers_not_understood: dict[str, str] = {}
        self._troubles = Repeated(logger)
        self._subscribers: list[tuple[frozenset[str], Callable[[], None]]] = []

    async def load(self) -> None:
        """Reads all there is, and encodes the passwords of an old secret anew."""
        topics = await self._tree.children(znodes.CONFIG_TOPICS)
        paths = [znodes.config_path("topics", topic) for topic in topics]
        for topic, path, node in zip(topics, paths, await self._tree.get_many(paths), strict=True):
            if node is not None:
                try:
                    self._take(topic, znodes.decode_config(path, node.data))
                except MalformedNode as error:
                    self._keep(topic, error)
        await self._encode_anew()
        await self._load_broker(is_change=False)

    async def load_topic(self, topic: str) -> None:
        """Reads one topic's settings: those of a new topic are there before anyone is told of it."""
        # A topic that gets more partitions must not take a change that was refused.
        await self._load_topic(topic, is_change=topic in self.topics_not_understood)

    async def _load_topic(self, topic: str, *, is_change: bool) -> None:
        try:
            own = await get_config(self._tree, "topics", topic)
        except MalformedNode as error:
            self._keep(topic, error)
        else:
            self._take(topic, own, is_change=is_change)

    def _take(self, topic: str, own: dict[str, str], *, is_change: bool = False) -> None:
        """The settings of a topic that can be used. A change with one that cannot has no effect."""
        _, problems = understood(own)
        unknown = sorted(name for name, problem in problems.items() if isinstance(problem, UnknownSetting))
        if unknown:
            names = ", ".join(unknown)
            self._troubles.log(
                logging.WARNING,
                (topic, names),
                "topic %s has settings that this release does not know, and that have no effect: %s",
                topic,
                names,
            )
        problem = next((each for each in problems.values() if not isinstance(each, UnknownSetting)), None)
        if problem is None:
            self.topics_not_understood.pop(topic, None)
            self.topics[topic] = own
            return
        if not is_change:
            self.topics[topic] = own
        self._keep(topic, problem)

    def _keep(self, topic: str, error: ConfigError | MalformedNode) -> None:
        """Settings of a topic are not understood: those that held go on to hold, and nothing is taken out of its logs,
        since it may have been told so.
        """
        self.topics.setdefault(topic, {})
        self.topics_not_understood[topic] = str(error)
        self._troubles.log(
            logging.ERROR,
            error.args,
            "settings of topic %s are not understood: those known before hold, and nothing of it is deleted or "
            "compacted until this is mended: %s",
            topic,
            error,
        )

    def keeps_everything(self, topic: str | None) -> bool:
        """True if settings that hold for a topic are not understood, so that nothing may be taken out of its logs."""
        return bool(self.brokers_not_understood) or topic in self.topics_not_understood

    def subscribe(self, names: Iterable[str], changed: Callable[[], None]) -> None:
        """Has `changed` called after the value of any of these settings of the broker changed; `config` has the new
        one.
        """
        self._subscribers.append((frozenset(names), changed))

    async def _encode_anew(self) -> None:
        """Encodes with the new secret all passwords that `password.encoder.old.secret` decodes, as Kafka does when it
        starts.
        """
        old, new = self.config.old_password_encoder, self.config.password_encoder
        if old is None:
            return
        name = str(self._broker_id)
        try:
            settings = await get_config(self._tree, "brokers", name)
            if new is None and any(map(is_password, settings)):
                raise ConfigError(SECRET, f"{OLD_SECRET} is set without {SECRET}")
            if new is not None and (anew := encoded_anew(settings, old, new)) != settings:
                await set_config(self._tree, "brokers", name, anew)
                logger.info("passwords in /config/brokers/%s are encoded with the new secret now", name)
        except (ConfigError, MalformedNode) as error:
            logger.error("passwords in /config/brokers/%s are not encoded anew: %s", name, error)

    async def _load_broker(self, *, is_change: bool) -> None:
        own = await self._usable(str(self._broker_id), is_change=is_change)
        default = await self._usable(DEFAULT, is_change=is_change)
        try:
            self.config = self.config.with_dynamic(own, default)
            hide(self.config.secrets)
            self.brokers_not_understood.pop(TOGETHER, None)
        except ConfigError as error:
            # Someone wrote it past every check: what held before goes on to hold.
            logger.error("settings in /config/brokers are not taken, and nothing is deleted or compacted: %s", error)
            self.brokers_not_understood[TOGETHER] = str(error)

    async def _usable(self, name: str, *, is_change: bool) -> dict[str, str]:
        """The settings of a node under /config/brokers that can be used; those that held before if the node cannot be
        read, or if one that was changed is refused.
        """
        try:
            settings = await get_config(self._tree, "brokers", name)
        except MalformedNode as error:
            logger.error("settings in /config/brokers are not taken, and nothing is deleted or compacted: %s", error)
            self.brokers_not_understood[name] = str(error)
            return self._dynamic.get(name, {})
        kept, problems = await decoded(self.config, settings, for_one_broker=name != DEFAULT)
        for problem in problems:
            logger.error("a setting in /config/brokers/%s is not taken: %s", name, problem)
        of_logs = [problem for problem in problems if problem.name in OF_LOGS]
        if of_logs:
            logger.error("nothing is deleted or compacted until /config/brokers/%s is mended", name)
            self.brokers_not_understood[name] = str(of_logs[0])
        else:
            self.brokers_not_understood.pop(name, None)
        refused = {problem.name: settings.get(problem.name) for problem in problems}
        if is_change and not refused.items() <= self._refused.get(name, {}).items():
            return self._dynamic.get(name, {})
        self._dynamic[name], self._refused[name] = kept, refused
        return kept

    async def _broker_changed(self) -> None:
        before, kept_everything = self.config, bool(self.brokers_not_understood)
        await self._load_broker(is_change=True)
        names = changed(before, self.config)
        if kept_everything != bool(self.brokers_not_understood):
            names |= OF_LOGS
        if names:
            logger.info("settings changed: %s", ", ".join(sorted(names)))
        for wanted, call in self._subscribers:
            if not wanted.isdisjoint(names):
                try:
                    call()
                except Exception:
                    # One who cannot take a change keeps what he had; it must not end the broker.
                    logger.exception("a change of %s has no effect", ", ".join(sorted(wanted & names)))

    async def watch(
        self,
        topic_changed: Callable[[str], None],
        client_changed: Callable[[str, str], Awaitable[None]],
        read_clients: Callable[[], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Takes every change until cancelled; started when those before are taken. What belongs to users and client ids
        is read by `client_changed(kind, name)`, and all of it by `read_clients()`.
        """

        async def on_change(kind: str, name: str) -> None:
            if kind == "topics":
                await self._load_topic(name, is_change=True)
                topic_changed(name)
            elif kind == "brokers" and name in (DEFAULT, str(self._broker_id)):
                await self._broker_changed()
            elif kind in ("users", "clients"):
                await client_changed(kind, name)

        async def read_all() -> None:
            await self._read_topics(topic_changed)
            await self._broker_changed()
            await read_clients()

        await watch_config_changes(self._tree, on_change, read_all, task_status=task_status)

    async def _read_topics(self, topic_changed: Callable[[str], None]) -> None:
        """Takes what changed of any topic."""
        topics = [*{*self.topics, *await self._tree.children(znodes.CONFIG_TOPICS)}]
        entities = [Entity("topics", topic) for topic in topics]
        async for topic, own in in_slices(zip(topics, await get_configs(self._tree, entities), strict=True)):
            if isinstance(own, MalformedNode):
                self._keep(topic, own)
            elif own != self.topics.get(topic, {}) or topic in self.topics_not_understood:
                self._take(topic, own, is_change=True)
            else:
                continue
            topic_changed(topic)
