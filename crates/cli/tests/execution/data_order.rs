//! How a trace writes data: found out, chosen, and said.

use std::path::Path;

use tracewire_test_support::sample;

use super::{run, trace};

/// A program that stores a number and loads it, on a Cortex-M4. The type of its lines is known for bytes in the order of
/// memory.
fn text(stored: &str, loaded: &str) -> String {
    format!(
        "1 cyc IT (00000100:00000001) 00000100     48f6 T16 LDR      r0,[pc,#984]\n\
         1 cyc R r0 20000000\n\
         1 cyc R r1 baadf00d\n\
         2 cyc IT (00000102:00000002) 00000102     6001 T16 STR      r1,[r0,#0]\n\
         2 cyc MNW4___D 20000000 {stored}\n\
         3 cyc IT (00000104:00000003) 00000104     6802 T16 LDR      r2,[r0,#0]\n\
         3 cyc MNR4___D 20000000 {loaded}\n\
         3 cyc R r2 baadf00d\n\
         4 cyc IT (00000106:00000004) 00000106     bf00 T16 NOP\n"
    )
}

const NUMBER: &str = "baadf00d";
const BYTES: &str = "0df0adba";

/// What memory holds when the program has stored and loaded.
fn memory(trace: &Path, more: &str) -> String {
    let words = format!("show @ --json --instruction 3 --memory 0x20000000,4 {more}");
    let shown = run(trace, &words).code(0).json().remove(0);
    shown["memory"][0]["bytes"].as_str().unwrap().to_owned()
}

#[test]
fn the_order_of_data_is_found_out_and_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    for (data, order, other) in [(NUMBER, "number", "memory"), (BYTES, "memory", "number")] {
        let path = trace(&folder, &text(data, data));
        let info = run(&path, "info --json @").code(0).json().remove(0);
        assert_eq!(info["data_order"], order);
        assert_eq!(memory(&path, ""), BYTES);
        assert_eq!(memory(&path, &format!("--data-order {order}")), BYTES);
        assert_eq!(memory(&path, &format!("--data-order {other}")), NUMBER);
        assert_eq!(run(&path, "check @").code(0).stdout, "");
        // What is converted is what memory holds.
        for form in ["qemu4v", "tarmac"] {
            let converted = folder.path().join(form);
            let words = format!(
                "convert @ {} --to {form} --architecture arm",
                converted.display()
            );
            run(&path, &words).code(0);
            assert_eq!(memory(&converted, "--architecture arm"), BYTES, "{form}");
        }
    }
}

#[test]
fn a_text_that_contradicts_itself_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder, &text(NUMBER, BYTES));
    let words = "by the registers that are loaded and stored, the data of 1 accesses are one number, and those of 1 the bytes in \
                 the order of memory";
    let advice = format!("{words}; --data-order says which is right\n");
    run(&path, "show @ --instruction 3").says(&[&advice]);
    let checked = run(&path, "check @");
    assert!(checked.stdout.contains(&advice), "{}", checked.stdout);
    // Chosen, it is said still, but no advice is given.
    run(&path, "show @ --instruction 3 --data-order number").says(&[&format!("{words}\n")]);
}

#[test]
fn a_trace_file_has_no_order_of_data() {
    let sample = sample("sample.tf");
    for command in ["info", "show", "check", "serve -"] {
        run(&sample, &format!("{command} @ --data-order number"))
            .code(2)
            .says(&["--data-order is for execution traces"]);
    }
}
