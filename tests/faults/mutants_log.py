"""What a log, and a directory of logs, promise about crashes: each promise broken once."""

from tests.faults.mutants import Mutant

MODEL = ("log::faults::model::the_log_is_its_model",)

MUTANTS = (
    Mutant(
        "log.recovery-exposes-before-fsync",
        "rust/log/recovery.rs",
        "        self.sync(&segments[first..])\n",
        "        Ok(())\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.no-folder-fsync-after-roll",
        "rust/log/flush.rs",
        "        if created || epochs_changed {\n",
        "        if false {\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.truncation-keeps-producers",
        "rust/log/truncate.rs",
        "        self.reload_producers(writer, end_offset)?;\n",
        "",
        cargo=MODEL,
    ),
)
