//! Files as they come: plain, compressed, cut, from a pipe.

use std::io::Write;
use std::path::Path;

use tracewire_exec_trace::text::{Compression, OpenError, TraceText};

const TEXT: &[u8] = b"1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compression_is_known_from_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("misleading.txt");
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    for (content, compression) in [
        (TEXT.to_vec(), Compression::None),
        (gzip(TEXT), Compression::Gzip),
        (zstd(TEXT), Compression::Zstandard),
    ] {
        std::fs::write(&path, content).unwrap();
        let text = TraceText::open(&path).unwrap();
        assert_eq!(&text[..], TEXT);
        assert_eq!(text.compression(), compression);
        assert!(text.is_file() && text.cut().is_none());
    }
    // Several members or frames are one text.
    for two in [
        [gzip(TEXT), gzip(TEXT)].concat(),
        [zstd(TEXT), zstd(TEXT)].concat(),
    ] {
        std::fs::write(&path, two).unwrap();
        assert_eq!(&TraceText::open(&path).unwrap()[..], [TEXT, TEXT].concat());
    }
}

#[test]
fn what_is_cut_gives_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    let long = TEXT.repeat(100_000);
    for whole in [gzip(&long), zstd::encode_all(&long[..], 1).unwrap()] {
        let mut cut = whole.clone();
        cut.truncate(whole.len() / 2);
        std::fs::write(&path, &cut).unwrap();
        let text = TraceText::open(&path).unwrap();
        assert!(text.cut().is_some());
        assert!(!text.is_empty() && long.starts_with(&text));
        cut.truncate(6);
        std::fs::write(&path, &cut).unwrap();
        assert!(matches!(
            TraceText::open(&path),
            Err(OpenError::Read { .. })
        ));
    }
}

#[test]
fn pipes_and_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    for content in [TEXT.to_vec(), gzip(TEXT)] {
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::write(pipe, content))
        };
        let text = TraceText::open(&pipe).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(&text[..], TEXT);
        assert!(!text.is_file());
    }
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert!(TraceText::open(&empty).unwrap().is_empty());
    for wrong in [folder.path(), Path::new("/nonexistent/trace")] {
        let error = TraceText::open(wrong).unwrap_err();
        assert!(
            error.to_string().contains(wrong.to_str().unwrap()),
            "{error}"
        );
    }
}
