"""What a log demands of what producers send, and how it knows what they sent before: each promise broken once."""

from tests.faults.mutants import Mutant

HOSTILE = ("records::tests::hostile::hostile_headers_of_batches_are_errors_that_name_the_field",)
PRODUCERS = ("records::tests::rules::what_only_a_producer_must_obey",)
NUMBERED = ("log::tests::records_that_a_client_did_not_count_are_numbered",)
SEQUENCES = ("log::staged::tests::sequence_numbers_are_checked_within_a_turn",)
MARKERS = ("log::transactions::tests::markers_are_fenced",)
GUARDS = ("log::transactions::tests::a_first_batch_needs_a_guard_that_still_holds",)
CONVERSION = ("log::conversion::",)
RULES = "tests/log/test_rules.py"
FORMATS = "tests/broker/fetch/test_old_formats.py"

MUTANTS = (
    # --- what a batch must be ---
    Mutant(
        "records.checksum-is-not-looked-at",
        "rust/records/validate.rs",
        "    check_crc(batch, &header)?;\n    Ok(header)\n",
        "    let _ = check_crc(batch, &header);\n    Ok(header)\n",
        cargo=HOSTILE,
    ),
    Mutant(
        "records.bytes-behind-the-last-record-pass",
        "rust/records/validate.rs",
        "    if seen.at != records.len() {\n",
        "    if seen.at > records.len() {\n",
        cargo=HOSTILE,
    ),
    Mutant(
        "records.an-offset-outside-of-the-batch-passes",
        "rust/records/validate.rs",
        "        if delta as u32 > last as u32 {\n",
        "        if delta as u32 > last as u32 && delta < 0 {\n",
        cargo=HOSTILE,
    ),
    Mutant(
        "records.producers-write-markers",
        "rust/records/validate.rs",
        "        if header.is_control() {\n",
        "        if header.is_control() && count == 0 {\n",
        cargo=PRODUCERS,
    ),
    Mutant(
        "records.producers-have-no-sequence",
        "rust/records/validate.rs",
        "        if header.has_producer_id() && header.base_sequence < 0 {\n",
        "        if header.has_producer_id() && header.base_sequence < NO_SEQUENCE {\n",
        cargo=PRODUCERS,
    ),
    Mutant(
        "records.all-records-have-keys",
        "rust/records/validate.rs",
        "        keyless: seen.key_lengths < 0,\n",
        "        keyless: seen.key_lengths < 0 && seen.at == 0,\n",
        cargo=("records::tests::properties::what_is_written_reads_back",),
    ),
    # --- what a topic demands ---
    Mutant(
        "records.compacted-topics-take-records-without-keys",
        "rust/log/checks.rs",
        "let keyless = config.compact && validated.keyless && ",
        "let keyless = config.compact && !validated.keyless && ",
        pytest=(f"{RULES}::test_compacted_logs_need_keys",),
    ),
    Mutant(
        "records.any-time-is-near",
        "rust/log/checks.rs",
        "        && timestamp_ms.abs_diff(now_ms) > difference_ms_max\n",
        "        && timestamp_ms.abs_diff(now_ms) > difference_ms_max.max(u64::MAX)\n",
        pytest=(f"{RULES}::test_timestamps",),
    ),
    Mutant(
        "records.the-log-takes-more-than-one-batch",
        "rust/log/prepare.rs",
        "    if size < records.len() {\n",
        "    if size < records.len() && size == 0 {\n",
        pytest=(f"{RULES}::test_damaged_batches_are_refused",),
    ),
    # --- what is stored instead ---
    Mutant(
        "rewriting.wrong-numbers-are-stored",
        "rust/log/prepare.rs",
        "        if !validated.consecutive {\n",
        "        if !validated.consecutive && size == 0 {\n",
        cargo=NUMBERED,
    ),
    Mutant(
        "rewriting.a-producer-is-forgotten",
        "rust/log/rewrite.rs",
        "            producer_id: first.producer_id,\n",
        "            producer_id: -1,\n",
        pytest=(f"{FORMATS}::test_a_batch_that_is_packed_anew_keeps_its_producer",),
    ),
    Mutant(
        "rewriting.messages-have-one-offset",
        "rust/log/rewrite.rs",
        "            let offset = self.first_offset + index as i64;\n",
        "            let offset = self.first_offset + (index as i64).min(0);\n",
        pytest=(f"{FORMATS}::test_every_format_becomes_the_topics",),
    ),
    Mutant(
        "rewriting.the-topics-codec-does-not-matter",
        "rust/log/rewrite.rs",
        "        let target = self.config.compression.unwrap_or(source);\n",
        "        let target = self.config.compression.map_or(source, |_| source);\n",
        pytest=(f"{FORMATS}::test_the_topics_codec",),
    ),
    # --- what a producer sent before (KIP-98) ---
    Mutant(
        "idempotence.a-gap-is-taken",
        "rust/log/producer_state.rs",
        "            if !follows {\n",
        "            if !follows && batch.base_sequence < 0 {\n",
        cargo=SEQUENCES,
    ),
    Mutant(
        "idempotence.a-retry-is-written-again",
        "rust/log/producer_state.rs",
        "            .find(|known| known.first_sequence() == first && known.last_sequence == last)\n",
        "            .find(|known| known.first_sequence() == first && known.last_sequence > last)\n",
        cargo=SEQUENCES,
    ),
    Mutant(
        "idempotence.replaced-producers-go-on",
        "rust/log/producer_state.rs",
        "        if batch.producer_epoch < producer.epoch {\n",
        "        if batch.producer_epoch < 0 {\n",
        cargo=MARKERS,
    ),
    Mutant(
        "idempotence.replaced-coordinators-go-on",
        "rust/log/producer_state.rs",
        "producer.coordinator_epoch > marker.coordinator_epoch",
        "producer.coordinator_epoch < marker.coordinator_epoch.min(0)",
        cargo=MARKERS,
    ),
    # --- what the coordinator knows of (KIP-890) ---
    Mutant(
        "verification.nobody-is-asked",
        "rust/log/append.rs",
        "            if is_client && config.verify_transactions && header.is_transactional() {\n",
        "            if is_client && config.verify_transactions && header.is_control() {\n",
        cargo=GUARDS,
    ),
    Mutant(
        "verification.outlives-a-marker",
        "rust/log/verification.rs",
        "        if !self.0.is_empty() {\n",
        "        if !self.0.is_empty() && producer_id < 0 {\n",
        cargo=GUARDS,
    ),
    Mutant(
        "verification.the-quicker-batch-goes-first",
        "rust/log/verification.rs",
        "            Some(entry) if batch.base_sequence > entry.lowest_sequence => {\n",
        "            Some(entry) if batch.base_sequence > entry.lowest_sequence.max(i32::MAX) => {\n",
        cargo=GUARDS,
    ),
    Mutant(
        "verification.any-guard-will-do",
        "rust/log/verification.rs",
        ".is_some_and(|entry| entry.guard == guard)",
        ".is_some_and(|entry| entry.guard <= guard)",
        cargo=GUARDS,
    ),
    # --- what waits for the end of a turn ---
    Mutant(
        "staging.two-batches-of-a-producer-wait-together",
        "rust/log/staged.rs",
        "            || header.has_producer_id() && staged.has_producer(header.producer_id);\n",
        "            || header.has_producer_id() && staged.has_producer(-1);\n",
        cargo=SEQUENCES,
    ),
    Mutant(
        "staging.what-was-lost-is-not-told",
        "rust/log/staged.rs",
        "            Err(error) => self.lose(writer, from, error),\n        }\n        buffers",
        "            Err(error) => drop((from, error)),\n        }\n        buffers",
        cargo=("log::staged::tests::what_cannot_be_written_was_never_there",),
    ),
    Mutant(
        "staging.goes-on-behind-what-was-lost",
        "rust/log/staged.rs",
        "Some(loss) if loss.number > self.told => Err(loss.error.clone()),",
        "Some(loss) if loss.number > self.told => Ok(()),",
        cargo=("log::staged::tests::nothing_is_appended_behind_what_was_lost",),
    ),
    Mutant(
        "staging.outlives-the-leader",
        "rust/log/staged.rs",
        "self.check_epoch(epoch).map(drop)",
        "self.check_epoch(epoch).map(drop).or(Ok(()))",
        cargo=("log::staged::tests::a_role_change_refuses_what_was_staged",),
    ),
    # --- what old consumers are sent ---
    Mutant(
        "conversion.an-answer-ends-with-markers",
        "rust/log/conversion.rs",
        "(messages.bytes.is_empty(), messages.next_offset)",
        "(false, messages.next_offset)",
        cargo=CONVERSION,
    ),
    Mutant(
        "conversion.what-follows-markers-is-not-committed",
        "rust/log/conversion.rs",
        "            .read(offset, bytes_max, self.upper_bound, room.is_empty)?;\n",
        "            .read(offset, bytes_max, i64::MAX, room.is_empty)?;\n",
        cargo=CONVERSION,
    ),
    Mutant(
        "conversion.what-follows-markers-is-whole-in-every-row",
        "rust/log/conversion.rs",
        "            .read(offset, bytes_max, self.upper_bound, room.is_empty)?;\n",
        "            .read(offset, bytes_max, self.upper_bound, true)?;\n",
        cargo=CONVERSION,
    ),
)
