"""The settings that hold now: the broker's own and each topic's, as the coordination tree has them.

Whoever changes one writes `/config/...` and then a notification; every broker hears it and takes the change without a
restart.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import trio

from ottla.config import BrokerConfig, ConfigError
from ottla.config.dynamic import changed, usable
from ottla.config.passwords import OLD_SECRET, SECRET, encoded_anew, is_password
from ottla.config.security import IGNORED
from ottla.controller.admin import get_config, set_config
from ottla.controller.config_changes import watch_config_changes
from ottla.coordination import znodes
from ottla.coordination.tree import Tree
from ottla.coordination.znodes import MalformedNode
from ottla.logging_setup import Repeated, hide

logger = logging.getLogger("ottla.settings")

#: the name under /config/brokers of what all brokers share
DEFAULT = "<default>"

#: of a topic whose own settings cannot be understood
UNKNOWN_TOPIC_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


async def decoded(
    config: BrokerConfig, settings: Mapping[str, str], *, for_one_broker: bool
) -> tuple[dict[str, str], list[str]]:
    """What `usable` says. The keys of passwords are made on a thread, without holding Python up: whoever encoded them
    decided how long that takes.
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
    """`config` is the broker's, with what was changed while brokers ran; `topics` each topic's own settings as text."""

    def __init__(self, tree: Tree, static: BrokerConfig, broker_id: int) -> None:
        self.config = static
        self.topics: dict[str, dict[str, str]] = {}
        self._tree = tree
        self._broker_id = broker_id
        #: The last settings that could be understood, by the node's name under /config/brokers.
        self._dynamic: dict[str, dict[str, str]] = {}
        self._troubles = Repeated(logger)
        self._subscribers: list[tuple[frozenset[str], Callable[[], None]]] = []

    async def load(self) -> None:
        """Reads all there is, and encodes the passwords of an old secret anew."""
        topics = await self._tree.children(znodes.CONFIG_TOPICS)
        paths = [znodes.config_path("topics", topic) for topic in topics]
        for topic, path, node in zip(topics, paths, await self._tree.get_many(paths), strict=True):
            if node is not None:
                try:
                    self.topics[topic] = znodes.decode_config(path, node.data)
                except MalformedNode as error:
                    self._keep(topic, error)
        await self._encode_anew()
        await self._load_broker()

    async def load_topic(self, topic: str) -> None:
        """Reads one topic's settings: those of a new topic are there before anyone is told of it."""
        try:
            self.topics[topic] = await get_config(self._tree, "topics", topic)
        except MalformedNode as error:
            self._keep(topic, error)

    def _keep(self, topic: str, error: MalformedNode) -> None:
        """Nobody understands a topic's settings: those that held go on to hold. Where none are known nothing is taken
        out of its logs, since they may have said that everything is kept.
        """
        self.topics.setdefault(topic, UNKNOWN_TOPIC_SETTINGS)
        self._troubles.log(
            logging.ERROR,
            error.args,
            "the settings of topic %s cannot be understood: those known before hold, or else nothing is deleted: %s",
            topic,
            error,
        )

    def subscribe(self, names: Iterable[str], changed: Callable[[], None]) -> None:
        """Has `changed` called after the value of any of these settings of the broker changed; `config` has the new
        one.
        """
        self._subscribers.append((frozenset(names), changed))

    async def _encode_anew(self) -> None:
        """What `password.encoder.old.secret` decodes is encoded with the new one, as Kafka does when it starts."""
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

    async def _load_broker(self) -> None:
        own = await self._usable(str(self._broker_id))
        default = await self._usable(DEFAULT)
        try:
            self.config = self.config.with_dynamic(own, default)
            hide(self.config.secrets)
        except ConfigError as error:
            # Someone wrote it past every check: what held before goes on to hold.
            logger.error("settings in /config/brokers are not taken: %s", error)

    async def _usable(self, name: str) -> dict[str, str]:
        try:
            settings = await get_config(self._tree, "brokers", name)
        except MalformedNode as error:
            logger.error("settings in /config/brokers are not taken: %s", error)
            return self._dynamic.get(name, {})
        kept, problems = await decoded(self.config, settings, for_one_broker=name != DEFAULT)
        for problem in problems:
            logger.error("a setting in /config/brokers/%s is not taken: %s", name, problem)
        self._dynamic[name] = kept
        return kept

    async def _broker_changed(self) -> None:
        before = self.config
        await self._load_broker()
        names = changed(before, self.config)
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
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Takes every change until cancelled; started when those before are taken. What belongs to users and client ids
        is read by `client_changed(kind, name)`.
        """

        async def on_change(kind: str, name: str) -> None:
            if kind == "topics":
                await self.load_topic(name)
                topic_changed(name)
            elif kind == "brokers" and name in (DEFAULT, str(self._broker_id)):
                await self._broker_changed()
            elif kind in ("users", "clients"):
                await client_changed(kind, name)

        await watch_config_changes(self._tree, on_change, task_status=task_status)
