"""Brokers that live through several scenarios: one of each contestant, all at the same time, so that rounds can go
A B A B between processes that stay warm.

Those that are not being measured are idle; what they use meanwhile is measured too and stands in the results.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benches.suite.frames import produce_frame
from benches.suite.generators import Load
from benches.suite.memory import Memory
from benches.suite.servers import Contestant, Running, Settings, clear, cpu_s, create_topic, seconds_until_served
from benches.suite.warmup import WarmUp, warm_up

# A topic's files go soon after the topic, before the next case: else they would go in the middle of it.
SHARED = {"log.segment.delete.delay.ms": 200}
FIRST_S = 20.0


@dataclass
class Life:
    """A broker, what it was started with, and for which scenarios it is warm."""

    server: Running
    folder: Path
    settings: Settings
    warm_for: set[str] = field(default_factory=set)


class Lives:
    """The brokers that live. `limit_s` bounds each warming; the first takes no less than `FIRST_S`, if it may."""

    def __init__(self, load: Load, window_s: float, limit_s: float) -> None:
        self.load = load
        self.window_s = window_s
        self.limit_s = limit_s
        self.memory = Memory()
        self._lives: dict[str, Life] = {}

    def get(self, contestant: Contestant, settings: Settings, say: Callable[[str], None]) -> tuple[Life, list[WarmUp]]:
        """The contestant's broker with these settings; if there is none it is started and warmed."""
        wanted = {**SHARED, **settings}
        life = self._lives.get(contestant.name)
        if life is not None and life.settings == wanted:
            return life, []
        self.end(contestant.name)
        say("starts")
        folder = Path(tempfile.mkdtemp(prefix="ottla-bench-life-"))
        life = Life(contestant.start(folder, wanted), folder, wanted)
        self._lives[contestant.name] = life
        seconds_until_served(life.server)
        return life, self._warm_up(contestant.name, life, say)

    def _warm_up(self, name: str, life: Life, say: Callable[[str], None]) -> list[WarmUp]:
        """Small Produce until its cost stands still. What else a scenario wants warm its rehearsals warm."""
        topic, server = "warm-up", life.server
        create_topic(server, topic, 4)
        say("warms up")
        with tempfile.TemporaryDirectory() as text:
            frames = [str(produce_frame(Path(text), topic, 100, partition=index).path) for index in range(4)]
            options = {"frames": frames, "connections": 50, "seconds": self.window_s}

            def window() -> float:
                with self.memory.ready("warm-up", False):
                    out = self.load(run="drive", address=server.bootstrap, pids=[server.pid], **options)
                used: float = out["cpu_s"] / max(1, out["requests"]) * 1e6
                return used

            found = warm_up(name, "small Produce", window, self.limit_s, min(FIRST_S, self.limit_s))
        clear(server)
        return [found]

    def others_cpu_s(self, name: str) -> float:
        """CPU that the other brokers have used since they began."""
        return sum(cpu_s(life.server) for other, life in self._lives.items() if other != name)

    def end(self, name: str | None = None) -> None:
        """Ends this contestant's broker, or all, and removes their files."""
        if name is None:
            self.memory.release()
        for one in [name] if name is not None else list(self._lives):
            if life := self._lives.pop(one, None):
                life.server.kill()
                shutil.rmtree(life.folder, ignore_errors=True)
