"""Kills a driver of pipelines while each of them is in the middle of a batch, and starts it again."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

LINE = re.compile(r"(\S+): (?:batch (\d+) (begins|done)|(finished|failed)|(held)).*")
SECONDS_MAX = 300
#: Lines of a driver's log that are shown when a pipeline failed: Spark's stacks are long.
TAIL = 200


@dataclass
class Drivers:
    """`pipelines` are (name, configuration file). `states` is what was last said of each file's pipeline."""

    pipelines: list[tuple[str, Path]]
    log: Path
    #: Of the driver, for many rows: Spark keeps the state of streams in it. Without it there are few.
    heap: str | None = None
    finished: set[str] = field(default_factory=set)
    killed_in: dict[str, int] = field(default_factory=dict)

    def run(self, kill_in: int | None = None, *, all_inside: bool = False, held: bool = False) -> None:
        """Runs the pipelines to their end; or kills the driver's whole process group as soon as each has begun batch
        `kill_in` or a later one, and one of them has done with it: `killed_in` says which were inside which. With
        `all_inside` one of them has, and each that has not finished is inside some batch. With `held`, for pipelines
        of `frame.streaming`, each is inside batch `kill_in` or a later one: the driver sees to it.
        """
        arguments = [text for name, file in self.pipelines for text in (name, str(file))]
        if held:
            arguments = ["--hold", str(kill_in), *arguments]
        size = ["--few"] if self.heap is None else ["--heap", self.heap]
        environment = dict(os.environ)
        if self.heap is not None:
            # Long enough for both of Java's compilers.
            environment.pop("SPARK_SUBMIT_OPTS", None)
        command = [sys.executable, str(Path(__file__).with_name("driver.py")), *size, *arguments]
        with self.log.open("ab") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True, cwd=Path.cwd(),
                env=environment,
            )  # fmt: skip
        assert process.stdout is not None
        self.killed_in = {}
        begun: set[str] = set()
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line)
                found = LINE.match(line)
                if found is None:
                    continue
                name, number, what, end, is_held = found.groups()
                if is_held:
                    break
                if end is not None:
                    self.finished.add(name)
                    assert end == "finished", "".join(said) + self._tail()
                elif what == "begins":
                    self.killed_in[name] = int(number)
                    if kill_in is not None and int(number) >= kill_in:
                        begun.add(name)
                else:
                    self.killed_in.pop(name, None)
                everyone = {file.stem for _, file in self.pipelines}
                if held or kill_in is None or what != "begins":
                    continue
                if (
                    (begun and self.killed_in.keys() >= everyone - self.finished)
                    if all_inside
                    else (begun | self.finished >= everyone)
                ):
                    break
            else:
                assert process.wait(SECONDS_MAX) == 0, "".join(said[-30:]) + self._tail()
                return
            assert self.killed_in, "".join(said)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL:])
