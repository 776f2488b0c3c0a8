//! The example, as its reader runs it.

use tracewire_test_support::{Cc, example};

const PROGRAM: &str = "\
struct point { int x; double y; };
enum color { RED, GREEN };
__attribute__((noinline)) int draw(struct point *at, enum color color, const char *name)
{ return at->x + color + name[0]; }
int main(void)
{ struct point one = { 1, 2.5 }; return draw(&one, GREEN, \"first\") + draw(&one, RED, \"second\") == 0; }
";

#[test]
fn arguments() {
    let folder = tempfile::tempdir().unwrap();
    let program = Cc::new().text(PROGRAM).build(folder.path(), "draw");
    let output = example("tracewire-recorder", "arguments")
        .arg("draw")
        .arg(&program)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.len(), 6, "{said}{errors}");
    assert!(
        lines[0].starts_with("at = (struct point *) 0x7ff"),
        "{said}"
    );
    assert_eq!(lines[1], "color = GREEN");
    assert!(lines[2].starts_with("name = 0x"), "{said}");
    assert_eq!(lines[4], "color = RED");
    // Nothing is left.
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["draw", "draw.c"]);
}

/// The example is short enough to be read at a glance: the lines of its function and its imports.
#[test]
fn the_example_is_short() {
    let text = include_str!("../examples/arguments.rs");
    let code = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(code.count() <= 25);
}
