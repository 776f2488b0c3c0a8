//! Which expressions mean the same at every place of a program.

use std::process::Command;
use std::sync::Arc;

use tracewire_debuginfo::Symbols;
use tracewire_expr::PreparedExpression;
use tracewire_model::Redactions;

const PROGRAM: &str = "
struct pair { int first, second; };
struct pair global;
int first(int value) { return value + global.first; }
int second(struct pair *value) { return value->second; }
int main(void) { return first(1) + second(&global); }
";

#[test]
fn an_expression_without_a_name_of_the_program_means_the_same_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (
        folder.path().join("program.c"),
        folder.path().join("program"),
    );
    std::fs::write(&source, PROGRAM).unwrap();
    let status = (Command::new("cc").arg("-g").arg(&source).arg("-o"))
        .arg(&program)
        .status();
    assert!(status.expect("cc is installed (package gcc)").success());
    let mut symbols = Symbols::new();
    symbols.add_module(&program, 0).unwrap();
    let first = symbols.resolve("first", None).unwrap()[0].address;
    let is_the_same = |symbols: &Symbols, text: &str| {
        let prepared = PreparedExpression::new(symbols, first, text);
        prepared.unwrap().is_the_same_elsewhere()
    };
    let anywhere = ["$trace_timestamp == 3", "$rdi + 1", "$duration > 1000", "7"];
    for text in anywhere {
        assert!(is_the_same(&symbols, text), "{text}");
    }
    for text in [
        "value",
        "$rdi + value",
        "global.first",
        "first",
        "(struct pair *) $rdi",
        "((struct pair *) $rdi)->first",
        "sizeof(struct pair)",
        "$retval",
    ] {
        assert!(!is_the_same(&symbols, text), "{text}");
    }
    // A register may hold redacted data at one place, and not at another one.
    let mut redactions = Redactions::none();
    redactions.add("value").unwrap();
    symbols.set_redactions(Arc::new(redactions));
    for text in anywhere {
        assert!(!is_the_same(&symbols, text), "{text}");
    }
}
