//! Properties of all batches: what is written reads back, and no bytes do harm.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn what_is_written_reads_back(records in some_records(), options in some_options()) {
        let batch = encode(options, &records);
        prop_assert_eq!(&decode(&batch).unwrap(), &records);
        let seen = check(&batch).unwrap();
        let header = seen.header;
        prop_assert_eq!(header.size_bytes(), batch.len());
        prop_assert_eq!(header.compression().unwrap(), options.codec);
        prop_assert_eq!(header.record_count as usize, records.len());
        prop_assert_eq!(header.last_offset(), records.last().unwrap().offset);
        prop_assert_eq!(
            (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence),
            (options.leader_epoch, options.producer_id, options.producer_epoch, options.base_sequence)
        );
        prop_assert_eq!(header.is_transactional(), options.transactional);
        let times = records.iter().map(|record| record.timestamp_ms);
        prop_assert_eq!(seen.max_timestamp, times.clone().max().unwrap());
        prop_assert_eq!(seen.max_timestamp, header.max_timestamp);
        prop_assert_eq!(seen.min_timestamp, times.filter(|time| *time >= 0).min().unwrap_or(-1));
        prop_assert_eq!(seen.keyless, records.iter().any(|record| record.key.is_none()));
        prop_assert_eq!(seen.consecutive, header.last_offset_delta + 1 == header.record_count);
    }

    #[test]
    fn every_cut_is_incomplete(records in some_records(), options in some_options(), cut in 0..100_000_usize) {
        let batch = encode(options, &records);
        let cut = cut % batch.len();
        prop_assert!(check(&batch[..cut]).unwrap_err().is_incomplete());
        prop_assert!(cut == 0 || Batches::new(&batch[..cut]).next().unwrap().unwrap_err().is_incomplete());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut buffer in bytes(400), records in bytes(300), attributes in 0..64_i16) {
        let _ = check(&buffer);
        let _ = decode(&buffer);
        // The same as the records of a batch whose header is right.
        let mut batch = encode(BatchOptions::default(), &[plain(b"x")]);
        batch.truncate(HEADER_BYTES);
        batch.extend_from_slice(&records);
        set_length(&mut batch);
        batch[21..23].copy_from_slice(&attributes.to_be_bytes());
        seal(&mut batch);
        let (walked, decoded) = (check(&batch), decode(&batch));
        prop_assert!(walked.is_err() || decoded.is_ok());
        buffer.extend_from_slice(&batch);
        let _ = decode(&buffer);
    }

    #[test]
    fn changed_batches_are_read_or_refused(
        records in some_records(),
        options in some_options(),
        changes in prop::collection::vec((0..100_000_usize, any::<u8>(), 0..4_u8), 1..6),
        sealed: bool,
    ) {
        let whole = encode(options, &records);
        let mut batch = whole.clone();
        for (at, byte, kind) in changes {
            let at = at % batch.len();
            match kind {
                0 => batch[at] = byte,
                1 => batch[at] ^= 1 << (byte % 8),
                2 => batch.insert(at, byte),
                _ if batch.len() > 1 => drop(batch.remove(at)),
                _ => {}
            }
        }
        if sealed {
            set_length(&mut batch);
            seal(&mut batch);
        } else if batch.len() == whole.len() && batch[21..] != whole[21..] {
            prop_assert!(check(&batch).is_err());
        }
        let (walked, decoded) = (check(&batch), decode(&batch));
        // What passes an append is readable.
        prop_assert!(walked.is_err() || decoded.is_ok(), "{:?}", decoded);
    }

    /// The same in the records of a compressed batch, behind a right checksum and a right frame of the codec.
    #[test]
    fn changed_records_are_read_or_refused_in_every_codec(
        records in some_records(),
        codec in 1..5_i8,
        changes in prop::collection::vec((0..100_000_usize, any::<u8>()), 1..4),
    ) {
        let codec = Codec::from_id(codec).unwrap();
        let mut batch = encode(BatchOptions::default(), &records);
        let mut packed = batch[..HEADER_BYTES].to_vec();
        for (at, byte) in changes {
            let at = HEADER_BYTES + at % (batch.len() - HEADER_BYTES);
            batch[at] = byte;
        }
        compression::Compressor::default().compress(codec, None, &batch[HEADER_BYTES..], &mut packed);
        packed[22] = codec as u8;
        set_length(&mut packed);
        seal(&mut packed);
        seal(&mut batch);
        // The codec makes no difference to what is accepted, nor to what is read.
        let (plain, compressed) = (check(&batch), check(&packed));
        prop_assert_eq!(plain.is_ok(), compressed.is_ok());
        match (plain, compressed) {
            (Ok(plain), Ok(compressed)) => prop_assert_eq!(
                (plain.max_timestamp, plain.min_timestamp, plain.keyless, plain.consecutive),
                (compressed.max_timestamp, compressed.min_timestamp, compressed.keyless, compressed.consecutive)
            ),
            (Err(plain), Err(compressed)) => {
                prop_assert_eq!((plain.field, plain.record), (compressed.field, compressed.record));
            }
            _ => {}
        }
        prop_assert_eq!(decode(&batch).ok(), decode(&packed).ok());
    }
}

#[test]
fn byte_by_byte_a_buffer_of_batches_grows_whole() {
    let records: Vec<Plain> = (0..3)
        .map(|offset| Plain {
            offset,
            ..plain(b"value")
        })
        .collect();
    let buffer: Vec<u8> = Codec::ALL
        .iter()
        .flat_map(|codec| {
            encode(
                BatchOptions {
                    codec: *codec,
                    ..BatchOptions::default()
                },
                &records,
            )
        })
        .collect();
    let mut ends = vec![0];
    ends.extend(Batches::new(&buffer).map(|batch| {
        batch
            .map(|batch| batch.position + batch.bytes.len())
            .unwrap()
    }));
    for length in 0..=buffer.len() {
        let mut batches = Batches::new(&buffer[..length]);
        let whole = batches.by_ref().filter(|batch| batch.is_ok()).count();
        assert_eq!(whole, ends.iter().filter(|end| **end <= length).count() - 1);
        assert_eq!(batches.position(), ends[whole]);
    }
}
