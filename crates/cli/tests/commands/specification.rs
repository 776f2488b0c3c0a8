//! The one-line form, from the argument to the values that `show` prints.

use serde_json::Value;

use crate::support::{Built, Ran, ran, tracewire, value};

/// Names that begin like an action of a script, and other names that a script has a meaning for.
const NAMES: [&str; 36] = [
    "c",
    "co",
    "col",
    "coll",
    "colle",
    "collec",
    "collect",
    "s",
    "st",
    "ste",
    "step",
    "stepp",
    "stepping",
    "t",
    "te",
    "tev",
    "teva",
    "teval",
    "w",
    "wh",
    "whi",
    "whil",
    "while_",
    "ws",
    "e",
    "en",
    "end",
    "i",
    "iff",
    "th",
    "thread",
    "task",
    "trace",
    "actions",
    "passcount",
    "a",
];

/// A program in which each name is a variable; the values are 1000, 1001, …
fn program() -> Built {
    let each = |words: fn(usize, &str) -> String| -> String {
        let named = NAMES.iter().enumerate();
        named.map(|(at, name)| words(at, name)).collect()
    };
    let source = format!(
        "{}\n__attribute__ ((noinline)) void f (void) {{ asm (\"\"); }}\nint main (void) {{ f (); return 0; }}\n",
        each(|at, name| format!("int {name} = {};\n", 1000 + at)),
    );
    Built::new(&source, &["-O0", "-no-pie"])
}

/// The positions in which every name is tested: an expression of it alone, one at the front of a list, and one in an operation.
fn specifications(place: &str) -> Vec<String> {
    let named = NAMES.iter();
    named
        .flat_map(|name| {
            [
                format!("{place} : {name}"),
                format!("{place} : {name}, a"),
                format!("{place} if {name} > 1 ? {name} : 0 : {name} + 1, {name}*2, &{name}"),
            ]
        })
        .collect()
}

#[track_caller]
fn check(frames: &[Value]) {
    assert_eq!(frames.len(), 3 * NAMES.len());
    for (at, name) in NAMES.iter().enumerate() {
        let number = 1000 + at;
        let of = |which: usize| {
            let tracepoint = 3 * at + which + 1;
            let frame = frames
                .iter()
                .find(|frame| frame["tracepoint"] == tracepoint)
                .unwrap_or_else(|| panic!("no frame of tracepoint {tracepoint}"));
            move |expression: &str| value(frame, expression)
        };
        let reported = Some(number.to_string());
        assert_eq!(of(0)(name), reported.as_deref(), "{name}");
        assert_eq!(of(1)(name), reported.as_deref(), "{name}");
        assert_eq!(of(1)("a"), Some("1035"), "{name}");
        let (sum, product) = ((number + 1).to_string(), (2 * number).to_string());
        assert_eq!(of(2)(&format!("{name} + 1")), Some(&*sum), "{name}");
        assert_eq!(of(2)(&format!("{name}*2")), Some(&*product), "{name}");
        let address = of(2)(&format!("&{name}")).unwrap_or_default();
        assert!(address.contains(&format!("<{name}>")), "{name}: {address}");
    }
}

#[test]
fn a_variable_is_collected_whatever_it_is_named() {
    let built = program();
    let mut command = tracewire();
    command.current_dir(built.folder.path()).arg("record");
    for specification in specifications("f") {
        command.args(["-t", &specification]);
    }
    let done = command.args(["-o", "out.tf", "--", "./program"]).output();
    ran(done.expect("tracewire runs")).code(0);
    check(&built.frames());
}

#[test]
fn so_it_is_over_a_recorded_execution() {
    let built = program();
    let address = |name: &str| {
        use object::{Object, ObjectSymbol};
        let elf = std::fs::read(&built.program).expect("the program");
        let file = object::File::parse(elf.as_slice()).expect("an ELF file");
        file.symbol_by_name(name).expect("a symbol").address()
    };
    // The program counter only: the values are the program's own.
    let trace = format!("1 clk IT (0) {:016x} 00000090 A svc : nop\n", address("f"));
    std::fs::write(built.path("x.trace"), trace).expect("written");
    let mut command = tracewire();
    command
        .current_dir(built.folder.path())
        .args(["collect", "--elf", "program"]);
    for specification in specifications(&format!("*{:#x}", address("f"))) {
        command.args(["-t", &specification]);
    }
    let done = command.args(["-o", "out.tf", "x.trace"]).output();
    ran(done.expect("tracewire runs")).code(0);
    check(&built.frames());
}

/// Records `main` of a program that ends at once.
fn refused(built: &Built, specification: &str) -> Ran {
    built
        .run(&[
            "record",
            "-t",
            specification,
            "-o",
            "x.tf",
            "--",
            "./program",
        ])
        .code(2)
}

#[test]
fn strings_and_numbers_are_in_one_list() {
    let built = Built::new(
        "#include <stdio.h>\n__attribute__ ((noinline)) int say (int n, const char *text, const char *more)\n\
         { return printf (\"%d %s %s\\n\", n, text, more); }\n\
         int main (void) { char text[] = \"seven\", more[] = \"more\"; return say (7, text, more) < 0; }\n",
        &["-O1"],
    );
    let shown = |list: &str| {
        let specification = format!("say : {list}");
        built
            .run(&[
                "record",
                "-t",
                &specification,
                "-o",
                "out.tf",
                "--",
                "./program",
            ])
            .code(0);
        let frames = built.frames();
        let reported = ["n", "text", "more"].map(|name| value(&frames[0], name).map(str::to_owned));
        reported.map(|reported| {
            reported.map(|reported| reported.split(' ').nth(1).unwrap_or(&reported).to_owned())
        })
    };
    let text = |text: &str| Some(text.to_owned());
    let [n, said, more] = shown("n, /s text, more");
    assert_eq!((n, said), (text("7"), text("\"seven\"")));
    assert!(more.is_some_and(|more| !more.contains("\"more\"")));
    let expected = [text("7"), text("\"seven\""), text("\"more\"")];
    assert_eq!(shown("/s n, text, more"), expected);
    assert_eq!(shown("collect/s n, text, more"), expected);
    let [_, said, more] = shown("n, /s text, /s3 more");
    assert_eq!(said, text("\"seven\""));
    assert!(more.is_some_and(|more| more.starts_with("\"mor\"")));

    refused(&built, "main : n, /s").says(&[
        "an expression after the format expected",
        "/s\n",
        "^^",
    ]);
    refused(&built, "main : n, /x n")
        .says(&["only `/s`, with an optional length and a blank after it"]);
}
