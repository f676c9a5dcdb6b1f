use proptest::prelude::*;

use twox_hash::XxHash32;

use super::*;

fn pack(codec: Codec, level: Option<i32>, bytes: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    Compressor::default().compress(codec, level, bytes, &mut out);
    assert_eq!(&out[..6], b"before");
    out.split_off(6)
}

fn unpack(codec: Codec, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, RecordError> {
    let mut out = Vec::new();
    Decompressor::default().decompress(codec, bytes, bytes_max, &mut out)?;
    Ok(out)
}

/// Text with some repetition and some noise, larger than every block size of the codecs.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut words = Vec::new();
    while words.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        words.extend_from_slice(
            format!("GET /page/{} HTTP/1.1 {:x} ", state >> 28, state >> 16).as_bytes(),
        );
    }
    words.truncate(bytes);
    words
}

#[test]
fn every_codec_gives_back_what_it_took() {
    for codec in Codec::ALL {
        let mut compressor = Compressor::default();
        let mut decompressor = Decompressor::default();
        for bytes in [0, 1, 100, 32 << 10, (64 << 10) + 1, 300_000] {
            let records = text(bytes);
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            compressor.compress(codec, None, &records, &mut packed);
            assert!(
                codec == Codec::None || bytes < 1000 || packed.len() < bytes / 2,
                "{codec:?} {}",
                packed.len()
            );
            // Exactly the limit is enough.
            decompressor
                .decompress(codec, &packed, bytes, &mut unpacked)
                .unwrap();
            assert!(unpacked == records, "{codec:?} {bytes}");
        }
    }
}

#[test]
fn levels_are_used_and_bounded() {
    let records = text(200_000);
    for codec in Codec::ALL {
        for level in [i32::MIN, -5, 0, 1, 9, 19, i32::MAX].map(Some) {
            let packed = pack(codec, level, &records[..20_000]);
            assert!(
                unpack(codec, &packed, 20_000).unwrap() == records[..20_000],
                "{codec:?} {level:?}"
            );
        }
    }
    for codec in [Codec::Gzip, Codec::Zstd] {
        assert!(
            pack(codec, Some(9), &records).len() < pack(codec, Some(1), &records).len(),
            "{codec:?}"
        );
    }
}

#[test]
fn incompressible_bytes_are_stored() {
    let mut state = 7_u64;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(200_000).collect();
    for codec in Codec::ALL {
        let packed = pack(codec, None, &noise);
        assert!(
            packed.len() < noise.len() + 1000,
            "{codec:?} {}",
            packed.len()
        );
        assert!(
            unpack(codec, &packed, noise.len()).unwrap() == noise,
            "{codec:?}"
        );
    }
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let zeros = vec![0; 64 << 20];
    for codec in Codec::ALL {
        let packed = pack(codec, None, &zeros);
        let mut out = Vec::new();
        let error = Decompressor::default()
            .decompress(codec, &packed, 1_500_000, &mut out)
            .unwrap_err();
        assert_eq!(
            (error.kind, error.field),
            (ErrorKind::TooLarge, "records"),
            "{codec:?}"
        );
        assert!(
            out.capacity() <= 1_500_001,
            "{codec:?} took {}",
            out.capacity()
        );
        let error = unpack(codec, &pack(codec, None, &zeros[..1001]), 1000).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{codec:?}");
    }
}

#[test]
fn promises_of_size_are_not_believed() {
    // A raw snappy block that promises 4 GiB, and one that promises 100 MB in 16 bytes.
    for length in [
        &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
        &[0x80, 0xc2, 0xd7, 0x2f],
    ] {
        let mut packed = length.to_vec();
        packed.resize(16, 0);
        let mut out = Vec::new();
        Decompressor::default()
            .decompress(Codec::Snappy, &packed, 128 << 20, &mut out)
            .unwrap_err();
        assert!(out.capacity() < 1 << 20);
    }
    // A zstd frame whose window is 1 GiB.
    let error = unpack(
        Codec::Zstd,
        &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0, 0],
        1 << 20,
    )
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
}

#[test]
fn every_cut_is_an_error() {
    let records = text(3_000);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let packed = pack(codec, None, &records);
        for cut in 0..packed.len() {
            let unpacked = unpack(codec, &packed[..cut], 10_000);
            // A snappy stream has no end mark: at a border of blocks it is whole.
            let whole = codec == Codec::Snappy && cut == 16;
            assert!(
                unpacked.is_err() || whole,
                "{codec:?} cut at {cut} of {}",
                packed.len()
            );
        }
    }
}

#[test]
fn lz4_frames_as_the_java_client_writes_them() {
    let packed = pack(Codec::Lz4, None, &text(100_000));
    assert_eq!(packed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(XxHash32::oneshot(0, &packed[4..6]) >> 8 & 0xff, 0x82);
    assert!(packed.ends_with(&[0; 4]));
}

#[test]
fn lz4_frames_with_every_option() {
    let content = b"content";
    let frame = |flags: u8, block: u8| {
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, block];
        if flags & 0x08 != 0 {
            frame.extend_from_slice(&7_u64.to_le_bytes());
        }
        frame.push((XxHash32::oneshot(0, &frame[4..]) >> 8) as u8);
        frame.extend_from_slice(&(7_u32 | 1 << 31).to_le_bytes());
        frame.extend_from_slice(content);
        if flags & 0x10 != 0 {
            frame.extend_from_slice(&XxHash32::oneshot(0, content).to_le_bytes());
        }
        frame.extend_from_slice(&[0; 4]);
        if flags & 0x04 != 0 {
            frame.extend_from_slice(&XxHash32::oneshot(0, content).to_le_bytes());
        }
        frame
    };
    for flags in [0x60, 0x64, 0x68, 0x70, 0x7c] {
        for block in [0x40, 0x50, 0x60, 0x70] {
            let mut packed = frame(flags, block);
            assert_eq!(unpack(Codec::Lz4, &packed, 7).unwrap(), content);
            assert!(unpack(Codec::Lz4, &packed, 6).is_err());
            // Every checksum is compared, and so is the content size.
            for at in 4..packed.len() {
                packed[at] ^= 1;
                let changed = unpack(Codec::Lz4, &packed, 100);
                assert!(
                    changed.is_err() || changed.unwrap() != content || flags == 0x60,
                    "{flags:#x} at {at}"
                );
                packed[at] ^= 1;
            }
        }
    }
    for (flags, block, problem) in [
        (0x40, 0x40, "depend"),
        (0xa0, 0x40, "version"),
        (0x61, 0x40, "descriptor"),
        (0x60, 0x30, "descriptor"),
    ] {
        let error = unpack(Codec::Lz4, &frame(flags, block), 100).unwrap_err();
        assert!(error.problem.contains(problem), "{error}");
    }
}

#[test]
fn snappy_in_both_forms() {
    let records = text(100_000);
    let framed = pack(Codec::Snappy, None, &records);
    assert_eq!(framed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    let raw = snap::raw::Encoder::new().compress_vec(&records).unwrap();
    assert!(unpack(Codec::Snappy, &raw, 100_000).unwrap() == records);
    let twice = [framed.clone(), framed].concat();
    assert_eq!(
        unpack(Codec::Snappy, &twice, 200_000).unwrap().len(),
        200_000
    );
}

#[test]
fn gzip_members_are_one_stream() {
    let packed = [
        pack(Codec::Gzip, None, b"one "),
        pack(Codec::Gzip, None, b"two"),
        vec![0, 1],
    ]
    .concat();
    assert_eq!(unpack(Codec::Gzip, &packed, 100).unwrap(), b"one two");
}

proptest! {

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), header in 0..3_usize) {
        for codec in Codec::ALL {
            // With the right first bytes, to get further.
            let good = pack(codec, None, b"x");
            let mut packed = good[..good.len().min([0, 7, 16][header])].to_vec();
            packed.extend_from_slice(&bytes);
            let mut out = Vec::new();
            let _ = Decompressor::default().decompress(codec, &packed, 10_000, &mut out);
            prop_assert!(out.capacity() <= STEP_BYTES.max(10_001));
        }
    }

    /// The state that is kept from call to call does not remember an error.
    #[test]
    fn after_an_error_the_next_is_read(cuts in prop::collection::vec((1..5_i8, 0..1000_usize, 0..3000_usize), 1..12)) {
        let (mut decompressor, mut compressor) = (Decompressor::default(), Compressor::default());
        for (codec, cut, size) in cuts {
            let codec = Codec::from_id(codec).unwrap();
            let (records, mut packed, mut out) = (text(size), Vec::new(), Vec::new());
            compressor.compress(codec, None, &records, &mut packed);
            let _ = decompressor.decompress(codec, &packed[..cut % packed.len()], 10_000, &mut out);
            let _ = decompressor.decompress(codec, &packed, size / 2, &mut out);
            out.clear();
            decompressor.decompress(codec, &packed, size, &mut out).unwrap();
            prop_assert!(out == records);
        }
    }

    #[test]
    fn changed_bytes_are_read_or_refused(at in 0..1000_usize, to: u8, codec in 1..5_i8, size in 1..5000_usize) {
        let codec = Codec::from_id(codec).unwrap();
        let records = text(size);
        let mut packed = pack(codec, None, &records);
        let at = at % packed.len();
        packed[at] = to;
        if let Ok(unpacked) = unpack(codec, &packed, 10_000) {
            prop_assert!(unpacked.len() <= 10_000);
        }
    }
}
