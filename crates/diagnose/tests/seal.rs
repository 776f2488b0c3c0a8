//! A checksum for files that GDB wrote.

use std::fs;
use std::path::PathBuf;

use tracewire_diagnose::{Finding, SealError, check_structure, seal};
use tracewire_test_support::sample;
use tracewire_tracefile::{Checksum, TraceFile};

/// A copy of a file of GDB's in a temporary directory.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::copy(sample(name), &path).unwrap();
    (folder, path)
}

fn findings(file: &TraceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    check_structure(file, &mut |finding| findings.push(finding));
    findings
}

#[test]
fn a_sealed_file_has_one_line_more_and_nothing_else_is_changed() {
    for name in ["sample.tf", "tfile-basic.tf", "tfile-error.tf"] {
        let (_folder, path) = copy(name);
        let before = TraceFile::open(&path).unwrap();
        let checksum = seal(&before).unwrap();
        let after = TraceFile::open(&path).unwrap();
        let line = format!("{checksum}\n");
        assert_eq!(
            after.as_bytes(),
            [&fs::read(sample(name)).unwrap()[..], line.as_bytes()].concat()
        );
        assert_eq!(after.checksum(), Some(checksum));
        assert_eq!(after.ending(), before.ending());
        assert_eq!(findings(&after), findings(&before), "{name}");
        assert!(matches!(seal(&after), Err(SealError::Sealed(declared)) if declared == checksum));
    }
}

/// Every byte of a small file, and every 29th of one with all the registers: the line of the checksum too.
#[test]
fn any_byte_that_changes_shows() {
    for (name, step) in [("tfile-basic.tf", 1), ("sample.tf", 29)] {
        let (_folder, path) = copy(name);
        let good = TraceFile::open(&path).unwrap();
        let usual = findings(&good);
        seal(&good).unwrap();
        let sealed = fs::read(&path).unwrap();
        for at in (0..sealed.len()).step_by(step) {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1 << (at % 8);
            if let Ok(file) = TraceFile::from_bytes(bytes) {
                assert_ne!(findings(&file), usual, "{name}: byte {at}");
            }
        }
    }
}

#[test]
fn a_file_that_is_not_finished_is_left_as_it_is() {
    let (_folder, path) = copy("sample.tf");
    let whole = fs::read(&path).unwrap();
    let cuts = [whole.len() - 4, whole.len() - 100, 600];
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        let file = TraceFile::open(&path).unwrap();
        assert!(
            matches!(seal(&file), Err(SealError::Unfinished)),
            "cut at {cut}"
        );
        assert_eq!(fs::read(&path).unwrap(), whole[..cut]);
    }
    let file = TraceFile::from_bytes(whole).unwrap();
    assert!(matches!(seal(&file), Err(SealError::InMemory)));
}

#[test]
fn a_file_that_another_writes_to_is_left_as_it_is() {
    let (_folder, path) = copy("sample.tf");
    let file = TraceFile::open(&path).unwrap();
    let longer = [file.as_bytes(), b"\0"].concat();
    // Under another name, because the mapped bytes must not change.
    let new = path.with_extension("new");
    fs::write(&new, &longer).unwrap();
    fs::rename(&new, &path).unwrap();
    let size = longer.len() as u64;
    assert!(matches!(seal(&file), Err(SealError::Changed { found, .. }) if found == size));
    assert_eq!(fs::read(&path).unwrap(), longer);
}

/// A file of ours announces its checksum: one that lost it gets no other, which would hide the loss.
#[test]
fn a_file_that_has_lost_its_checksum_gets_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.tf");
    let description = b"R 4\nstatus 0;tstop::0;tframes:0;checksum:crc32\n";
    let bytes = [b"\x7fTRACE0\n", &description[..], b"\n\0\0\0\0"].concat();
    fs::write(&path, &bytes).unwrap();
    let file = TraceFile::open(&path).unwrap();
    assert!(matches!(seal(&file), Err(SealError::Lost)));
    let line = format!("{}\n", Checksum::of(&bytes));
    fs::write(&path, [&bytes[..], line.as_bytes()].concat()).unwrap();
    assert!(matches!(
        seal(&TraceFile::open(&path).unwrap()),
        Err(SealError::Sealed(_))
    ));
}
