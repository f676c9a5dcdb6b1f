"""The progress of a pipeline, shown while it runs: a live line on a terminal, else a line per batch, on stderr."""

import sys
import time
from typing import TextIO


class Progress:
    """Tells people about batches. `records` and `batches` are those of this run; `unit` is what records are called.

    The lines for other programs are `batch 7 begins: 50,000 records` and `batch 7 done: ...`; the first is written
    before anything of the batch is.
    """

    def __init__(self, name: str, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stderr
        self._name = name
        self._started = time.monotonic()
        self._live = None
        if self._out.isatty():
            from rich.console import Console

            self._live = Console(file=self._out, highlight=False).status(f"{name}: starting")
            self._live.start()
        self.records = 0
        self.batches = 0
        self.unit = "records"

    def begins(self, batch: int, records: int | None, left: int | None = None) -> None:
        """A batch of so many records begins; `left` are to follow it."""
        text = f"batch {batch} begins" + ("" if records is None else f": {records:,} {self.unit}")
        if left:
            text += f", {left:,} to follow"
        self._say(text)

    def done(self, batch: int, records: int, text: str = "") -> None:
        """It is durable."""
        self.records += records
        self.batches += 1
        rate = self.records / max(time.monotonic() - self._started, 1e-3)
        self._say(f"batch {batch} done: {self.records:,} {self.unit} in all, {rate:,.0f}/s{text and ', ' + text}")

    def note(self, text: str) -> None:
        """Anything else, which stays on a terminal."""
        if self._live is not None:
            self._live.console.print(f"{self._name}: {text}")
        else:
            self._say(text)

    def close(self) -> None:
        """Gives the terminal back."""
        if self._live is not None:
            self._live.stop()

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.update(f"{self._name}: {text}")
        else:
            print(f"{self._name}: {text}", file=self._out, flush=True)
