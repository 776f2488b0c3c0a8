//! The reader of lean recordings, on any bytes, and on blocks with good checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_tracefile::TraceFile;
use tracewire_tracefile::lean::LEAN_HEADER;

#[path = "../../crates/tracefile/tests/support/touch.rs"]
mod touch;

/// Registers of two kinds, and nothing else.
const DESCRIPTION: &[u8] = b"R c\ntdesc <target><architecture>i386:x86-64</architecture><feature name=\"org.gnu.gdb.i386.core\">\
<reg name=\"rax\" bitsize=\"64\" type=\"int64\" regnum=\"0\"/><reg name=\"eflags\" bitsize=\"32\" type=\"int\" regnum=\"1\"/>\
</feature></target>\n";

fuzz_target!(|bytes: &[u8]| {
    open([LEAN_HEADER, bytes].concat());
    let mut file = LEAN_HEADER.to_vec();
    block(&mut file, b"desc", 0, DESCRIPTION);
    let (frames, content) = bytes.split_first().unwrap_or((&0, &[]));
    block(&mut file, b"fram", u32::from(*frames), content);
    block(&mut file, b"ends", 0, &[]);
    open(file);
});

fn open(bytes: Vec<u8>) {
    if let Ok(file) = TraceFile::from_bytes(bytes) {
        touch::everything(&file);
    }
}

fn block(file: &mut Vec<u8>, kind: &[u8; 4], frames: u32, content: &[u8]) {
    let start = file.len();
    let length = (content.len() as u32).to_le_bytes();
    for part in [b"\x7fTWB", kind, &length, &length, &frames.to_le_bytes()] {
        file.extend_from_slice(part);
    }
    let mut sum = crc32fast::Hasher::new();
    sum.update(&file[start..]);
    sum.update(content);
    file.extend_from_slice(&sum.finalize().to_le_bytes());
    file.extend_from_slice(content);
}
