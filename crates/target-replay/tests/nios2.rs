//! The recording of a Nios II program: it is what its maker makes, and the others need programs that may not be here.

use std::fs::File;
use std::path::Path;

#[path = "../examples/make_fixtures/nios2.rs"]
mod nios2;

#[test]
fn nios2_is_as_checked_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (kind, bytes) in nios2::record() {
        let packed = File::open(folder.join(format!("nios2.{kind}.zst"))).unwrap();
        assert!(zstd::decode_all(packed).unwrap() == bytes, "{kind}");
    }
}
