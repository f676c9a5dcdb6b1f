"""What a log, and a directory of logs, promise about crashes: each promise broken once."""

from tests.faults.mutants import Mutant

MODEL = ("log::faults::model::the_log_is_its_model",)
TAILS = ("log::faults::tails::a_last_batch_of_every_form_torn_at_every_byte",)
POWER = ("log::faults::power::at_every_change_of_a_log_that_does_everything",)
TRUNCATION = ("log::faults::truncation::no_segment_is_left_behind_one_that_is_gone",)
CLEANED = ("log::faults::truncation::a_cleaner_checkpoint_ahead_of_the_end_is_not_believed",)
WENT = ("log::faults::directory::a_folder_that_went_on_purpose_takes_no_directory_out_of_use",)

MUTANTS = (
    Mutant(
        "log.truncation-from-the-beginning",
        "rust/log/deletion.rs",
        "        for segment in segments.iter().rev() {\n            segment.set_suffix(Suffix::Deleted)?;\n"
        "            self.folder.sync()?;\n",
        "        for segment in segments {\n            segment.set_suffix(Suffix::Deleted)?;\n"
        "            self.folder.sync()?;\n",
        cargo=TRUNCATION,
    ),
    Mutant(
        "log.truncation-in-no-order",
        "rust/log/deletion.rs",
        "            segment.set_suffix(Suffix::Deleted)?;\n            self.folder.sync()?;\n        }\n",
        "            segment.set_suffix(Suffix::Deleted)?;\n        }\n        self.folder.sync()?;\n",
        cargo=TRUNCATION,
    ),
    Mutant(
        "log.cleaner-checkpoint-ahead-of-the-end",
        "rust/log/opening.rs",
        "if cleaned > end { start } else { cleaned }",
        "if cleaned > end { cleaned.max(start) } else { cleaned }",
        cargo=CLEANED,
    ),
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
        "log.ack-before-fsync",
        "rust/log/segment.rs",
        "        let synced = self.file.file().and_then(|file| file.sync_data());\n",
        "        let synced: std::io::Result<()> = Ok(());\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.flush-only-the-active-segment",
        "rust/log/flush.rs",
        "            if segment.base_offset < target.segment {\n",
        "            if segment.base_offset < target.segment && from < 0 {\n",
        cargo=POWER,
    ),
    Mutant(
        "log.truncation-not-durable",
        "rust/log/truncate.rs",
        "        active.sync()?;\n",
        "",
        cargo=MODEL,
    ),
    Mutant(
        "log.truncation-keeps-producers",
        "rust/log/truncate.rs",
        "        self.reload_producers(writer, end_offset)?;\n",
        "",
        cargo=MODEL,
    ),
    Mutant(
        "log.truncation-keeps-snapshots",
        "rust/log/truncate.rs",
        "            if snapshot > end_offset {\n",
        "            if snapshot > end_offset && end_offset < 0 {\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.truncation-keeps-epochs",
        "rust/log/truncate.rs",
        "        self.recount();\n        if self.epochs.write().truncate_from_end(end_offset) {\n",
        "        self.recount();\n        if false {\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.truncation-forgets-the-recovery-point",
        "rust/log/truncate.rs",
        "        self.flushed_offset.fetch_min(end_offset, Ordering::AcqRel);\n",
        "",
        cargo=MODEL,
    ),
    Mutant(
        "log.recovery-without-crc",
        "rust/log/scan.rs",
        "check_crc(bytes, &located.header)\n",
        "Ok(bytes).map(|_| ())\n",
        cargo=TAILS,
    ),
    Mutant(
        "log.recovery-keeps-a-torn-tail",
        "rust/log/recovery.rs",
        '            file.set_length(end).context("truncate", &path)?;\n',
        "",
        cargo=MODEL,
    ),
    Mutant(
        "log.recovery-keeps-what-follows-a-torn-segment",
        "rust/log/recovery.rs",
        "                damaged = Some(at + 1);\n",
        "                damaged = None;\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.retries-of-the-newest-batch-only",
        "rust/log/snapshots.rs",
        "            recall(segments, &mut state)?;\n",
        "",
        cargo=POWER,
    ),
    Mutant(
        "log.recovery-keeps-snapshots",
        "rust/log/recovery.rs",
        "            if snapshot > base_offset {\n",
        "            if snapshot > base_offset && base_offset < 0 {\n",
        cargo=("log::faults::found::a_snapshot_of_what_the_power_took",),
    ),
    Mutant(
        "log.clean-stop-without-sync",
        "rust/log/directory.rs",
        "            let synced = self.home.storage.sync_all(self.path());\n",
        "            let synced = std::io::Result::Ok(());\n",
        cargo=("log::faults::directory",),
    ),
    Mutant(
        "log.recovery-forgets-aborted-transactions",
        "rust/log/recovery.rs",
        "            segment.transaction_index.replace(&recovered.aborted)?;\n",
        "            segment.transaction_index.replace(&[])?;\n",
        cargo=MODEL,
    ),
    Mutant(
        "log.recovery-forgets-gaps-of-a-truncation",
        "rust/log/recovery.rs",
        "            let gap = is_gap && !is_deleted;\n",
        "            let gap = is_gap;\n",
        cargo=("log::faults::found::a_truncation_to_a_start_inside_a_batch",),
    ),
    Mutant(
        "log.recovery-misses-a-deleted-marker",
        "rust/log/recovery.rs",
        "let forgets = is_gap && is_deleted;\n",
        "let forgets = is_gap && is_deleted && start_offset < 0;\n",
        cargo=("log::faults::found::a_deletion_that_the_power_interrupts",),
    ),
    Mutant(
        "log.recovery-forgets-for-itself-alone",
        "rust/log/recovery.rs",
        "snapshot.filter(|_| forgets)",
        "snapshot.filter(|_| false)",
        cargo=("log::faults::found::a_marker_lost_in_front_of_the_start",),
    ),
    Mutant(
        "log.recovery-cuts-what-was-flushed",
        "rust/log/recovery.rs",
        "if rebuilt.next_offset < damage.flushed_offset => {\n",
        "if rebuilt.next_offset < damage.flushed_offset.min(0) => {\n",
        cargo=("log::faults::flips::in_a_segment",),
    ),
    Mutant(
        "log.a-lost-index-loses-aborted-transactions",
        "rust/log/recovery.rs",
        "            self.rebuild(segment, &mut Some(&mut before), Damage::KEPT)?;\n",
        "            self.rebuild(segment, &mut None, Damage::KEPT)?;\n",
        cargo=("log::faults::flips::what_was_taken_from_beside_a_segment_is_made_again",),
    ),
    Mutant(
        "log.trusts-an-offset-index",
        "rust/log/segment.rs",
        "            if is_named && batch.is_none_or(|batch| batch.header.base_offset > offset) {\n",
        "            if is_named && offset < 0 {\n",
        cargo=("log::faults::flips::in_an_offset_index",),
    ),
    Mutant(
        "log.trusts-a-time-index",
        "rust/log/segment.rs",
        "            && batch.header.max_timestamp == entry.timestamp_ms;\n",
        "            && batch.header.max_timestamp >= -1;\n",
        cargo=("log::faults::flips::in_a_time_index",),
    ),
    Mutant(
        "log.trusts-an-index-of-aborted-transactions",
        "rust/log/recovery.rs",
        "(!may_have_aborted || segment.transaction_index.is_sane()?)\n",
        "(!may_have_aborted || true)\n",
        cargo=("log::faults::flips::in_an_index_of_aborted_transactions",),
    ),
    Mutant(
        "log.trusts-a-producer-snapshot",
        "rust/log/producer_state.rs",
        "        if version != SNAPSHOT_VERSION || crc != crc32c(fields.0) {\n",
        "        if version != SNAPSHOT_VERSION || crc == 1 {\n",
        cargo=("log::faults::flips::in_a_producer_snapshot",),
    ),
    Mutant(
        "log.marker-before-its-index-entry-after-a-clean-stop",
        "rust/log/log.rs",
        "                Some(active) if is_behind => active.sync_indexes()?,\n"
        "                Some(active) => active.sync_closed()?,\n"
        "                None => {}\n",
        "                _ => {}\n",
        cargo=("log::faults::found::a_truncation_before_a_clean_stop",),
    ),
    Mutant(
        "log.snapshot-outlives-a-cleaned-marker",
        "rust/log/cleaner/run.rs",
        "                self.log.remove_snapshots_to(offset)?;\n",
        "                self.log.remove_snapshots_to(offset.min(-1))?;\n",
        cargo=("log::cleaner::tests::no_snapshot_outlives_the_marker_of_a_transaction_that_it_calls_open",),
    ),
    Mutant(
        "log.cleaning-without-flush",
        "rust/log/cleaner/run.rs",
        "            log.flush()?;\n",
        "            drop(log);\n",
        cargo=("log::cleaner::tests::a_compacted_log_is_its_model",),
    ),
    Mutant(
        "log.checkpoint-without-fsync",
        "rust/storage/mod.rs",
        "        self.replace_unsynced(path, bytes, true)?;\n",
        "        self.replace_unsynced(path, bytes, false)?;\n",
        cargo=("log::faults::directory::at_every_change_of_two_directories",),
    ),
    Mutant(
        "log.checkpoint-without-folder-fsync",
        "rust/storage/mod.rs",
        "            Some(parent) => self.sync_directory(parent),\n",
        "            Some(_) => Ok(()),\n",
        cargo=("log::faults::directory::at_every_change_of_two_directories",),
    ),
    Mutant(
        "log.clean-shutdown-marker-stays",
        "rust/log/directory.rs",
        '            storage.remove_file(&marker).context("remove", &marker)?;\n',
        "",
        cargo=("log::faults::directory::at_every_change_of_two_directories",),
    ),
    Mutant(
        "log.clean-shutdown-marker-not-removed-durably",
        "rust/log/directory.rs",
        """            storage
                .sync_directory(&home.path)
                .context("sync", &home.path)?;
        }
""",
        "        }\n",
        cargo=("log::faults::directory::a_marker_of_a_clean_stop_is_gone_before_anything_is_written",),
    ),
    Mutant(
        "log.recovery-point-beyond-the-flush",
        "rust/log/directory.rs",
        "state.table(&state.recovery_points, |log| Some(log.flushed_offset()))",
        "state.table(&state.recovery_points, |log| Some(log.end_offset()))",
        cargo=("log::faults::directory::at_every_change_of_two_directories",),
    ),
    Mutant(
        "log.move-without-folder-fsync",
        "rust/log/directory.rs",
        """        let synced = self.home.storage.sync_directory(&self.home.path);
        self.home.guard(synced.context("sync", &self.home.path))
""",
        "        Ok(())\n",
        cargo=("log::faults::directory::at_every_change_of_two_directories",),
    ),
    Mutant(
        "log.superseded-counts-its-neighbours",
        "rust/log/cleaner/superseded.rs",
        "                word &= u64::MAX << (first % BITS);\n",
        "",
        cargo=("log::cleaner::superseded::tests::it_answers_like_a_set",),
    ),
    Mutant(
        "log.superseded-is-the-last-record",
        "rust/log/cleaner/offset_map.rs",
        ".mark(self.first_offset + i64::from(earlier) - 1);",
        ".mark(self.first_offset + i64::from(relative) - 1);",
        cargo=("log::cleaner::tests::a_compacted_log_is_its_model",),
    ),
    Mutant(
        "log.superseded-forgets-what-is-put-off",
        "rust/log/cleaner/superseded.rs",
        "        for bit in self.later.drain() {\n            self.set(bit);\n        }\n",
        "        self.later.drain().for_each(drop);\n",
        cargo=("log::cleaner::tests::a_compacted_log_is_its_model",),
    ),
    Mutant(
        "log.cleaning-does-not-split",
        "rust/log/cleaner/cleaned.rs",
        "        if follows && is_confirmed && !fits(",
        "        if follows && is_confirmed && false && !fits(",
        cargo=("log::faults::overflow::a_cleaning_splits_it",),
    ),
    Mutant(
        "log.cleaning-splits-at-damage",
        "rust/log/cleaner/cleaned.rs",
        "        if follows && is_confirmed && !fits(",
        "        if follows && (is_confirmed || true) && !fits(",
        cargo=("log::faults::overflow::a_cleaning_does_not_split_at_damage",),
    ),
    Mutant(
        "log.a-log-that-moved-away-is-written-when-closed",
        "rust/log/log.rs",
        "        self.mode == OpenMode::Append && !self.leaving.load(Ordering::Acquire)\n",
        "        self.mode == OpenMode::Append\n",
        cargo=WENT,
    ),
    Mutant(
        "log.a-folder-that-went-on-purpose-fails-its-directory",
        "rust/log/log.rs",
        "        if self.leaving.load(Ordering::Acquire) {\n            self.home.guard_read",
        "        if false {\n            self.home.guard_read",
        cargo=WENT,
    ),
    Mutant(
        "log.a-flush-of-a-log-that-moved-away-is-lost",
        "rust/log/flush.rs",
        "            if let Some(next) = self.successor.get() {\n",
        "            if let Some(next) = self.successor.get().filter(|_| false) {\n",
        cargo=WENT,
    ),
    Mutant(
        "log.a-log-that-takes-a-place-overtakes-what-waits",
        "rust/log/moving.rs",
        "    future.pending.store(current.pending.load_full());\n",
        "",
        cargo=("log::faults::directory::appends_keep_their_order_when_the_log_moves",),
    ),
)
