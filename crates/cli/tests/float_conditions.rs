//! Conditions on floating-point arguments, which optimised code has in vector registers.

use std::path::Path;
use std::process::Command;

use tracewire_tracefile::TraceFile;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The calls that a condition selects, by the program's log.
struct Case {
    condition: &'static str,
    selects: fn(index: i64) -> bool,
}

const CALLS: i64 = 40;

const CASES: &[Case] = &[
    Case {
        condition: "weight > 2.0",
        selects: |index| index as f64 * 0.5 > 2.0,
    },
    Case {
        condition: "-1.5 >= minus || weight == 3",
        selects: |index| -1.5 >= -(index as f64) || index == 6,
    },
    Case {
        condition: "small < 0.25f",
        selects: |index| (index as f32) / 16.0 < 0.25,
    },
    Case {
        condition: "weight != weight",
        selects: |_| false,
    },
    Case {
        condition: "index > 3 && weight <= 7.5 && small",
        selects: |index| index > 3 && index <= 15,
    },
];

#[test]
fn a_condition_on_a_floating_point_argument_selects_what_the_program_compares() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/weights.c");
    let program = folder.path().join("weights");
    let status = Command::new("cc")
        .args(["-g", "-O2", "-o"])
        .args([&program, &source])
        .status()
        .expect("cc is installed");
    assert!(status.success());
    let path = folder.path().join("weights.tf");
    for mechanism in ["jump", "trap"] {
        for case in CASES {
            let wanted: Vec<i64> = (0..CALLS).filter(|index| (case.selects)(*index)).collect();
            let output = Command::new(TRACEWIRE)
                .args(["record", "--mechanism", mechanism, "-t"])
                .arg(format!("work if {} : index", case.condition))
                .arg("-o")
                .args([&path, Path::new("--"), &program])
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            let about = format!("{mechanism} {}: {words}", case.condition);
            // A run without a frame is the answer no.
            let code = i32::from(wanted.is_empty());
            assert_eq!(output.status.code(), Some(code), "{about}");
            let file = TraceFile::open(&path).unwrap();
            let indices: Vec<i64> = file
                .frames()
                .map(|frame| frame.register_value_named("rdi").unwrap().cast_signed())
                .collect();
            assert_eq!(indices, wanted, "{about}");
            tracewire_test_support::assert_clean(&path);
        }
        // GDB has the user's condition, not the compiled one.
        let gdb = Command::new("gdb")
            .args(["-nx", "-batch", "-ex", "set confirm off", "-ex"])
            .arg(format!("target tfile {}", path.display()))
            .args(["-ex", "info tracepoints", "-ex", "tfind 0"])
            .arg(&program)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&gdb.stdout).into_owned();
        assert!(
            said.contains("trace only if index > 3 && weight <= 7.5"),
            "{said}"
        );
        assert!(said.contains("Found trace frame 0"), "{said}");
    }
}
