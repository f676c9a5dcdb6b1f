"""The audit log: who did what can be looked up, and nobody waits for it."""

from tests.faults.mutants import Mutant

REPEATS = "tests/broker/audit/test_repeats.py"
FILE = "tests/broker/audit/test_file.py"
WRITER = "tests/broker/audit/test_writer.py"
AUDIT = "tests/broker/audit/test_audit.py"

MUTANTS = (
    Mutant(
        "audit.those-who-prove-it-again-count-as-new",
        "python/ottla/broker/authentication/authentication.py",
        "            counts = before._replace(succeeded_again=before.succeeded_again + 1)\n",
        "            counts = before._replace(succeeded=before.succeeded + 1)\n",
        pytest=(
            "tests/broker/authentication/test_authentication.py::test_those_who_say_again_who_they_are_are_counted_apart",
        ),
    ),
    Mutant(
        "audit.an-address-drives-out-older-lines",
        "python/ottla/broker/audit/repeats.py",
        "if self._of_address[address] >= OF_ADDRESS_MAX:",
        "if False:",
        pytest=(f"{REPEATS}::test_an_address_that_does_too_many_things_does_others",),
    ),
    Mutant(
        "audit.what-was-left-out-is-not-counted",
        "python/ottla/broker/audit/repeats.py",
        "if seen.left_out else []",
        "if False else []",
        pytest=(f"{REPEATS}::test_the_first_is_told_and_the_others_are_counted_after_a_minute",),
    ),
    Mutant(
        "audit.files-without-a-bound",
        "python/ottla/broker/audit/file.py",
        "range(1, self._files_max)",
        "range(1, 1000)",
        pytest=(f"{FILE}::test_files_take_turns_and_the_oldest_is_gone",),
    ),
    Mutant(
        "audit.half-a-line-stays",
        "python/ottla/broker/audit/file.py",
        "                os.ftruncate(self._descriptor, size)\n",
        "                pass\n",
        pytest=(f"{FILE}::test_what_a_full_disk_took_of_a_line_is_taken_back",),
    ),
    Mutant(
        "audit.lines-wait-without-a-bound",
        "python/ottla/broker/audit/writer.py",
        "if self._waiting_bytes + len(line) > self._bytes_max or self._is_ending:",
        "if self._is_ending:",
        pytest=(f"{WRITER}::test_a_disk_that_stands_still_loses_lines_and_holds_up_nobody",),
    ),
    Mutant(
        "audit.passwords-as-names-are-written",
        "python/ottla/broker/authentication/authentication.py",
        "            reason, claimed = reason.replace(claimed, HIDDEN), HIDDEN\n",
        "            pass\n",
        pytest=(f"{AUDIT}::test_who_could_not_say_who_it_is_is_written_without_a_secret",),
    ),
    Mutant(
        "audit.denials-are-not-written",
        "python/ottla/broker/authorization/authorizer.py",
        "        if not decision.is_allowed or self._authorizer.notes_allowed:\n",
        "        if self._authorizer.notes_allowed:\n",
        pytest=(f"{AUDIT}::test_what_is_denied_is_written_once_with_who_and_where",),
    ),
)
