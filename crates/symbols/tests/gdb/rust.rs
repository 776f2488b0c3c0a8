use crate::compare::Stopped;

const BUILD: &[&str] = &["rustc", "--edition", "2021", "-g", "-C", "opt-level=0", "-A", "warnings"];

#[test]
fn rust_values_print_as_in_gdb() {
    Stopped::at("shapes.rs", BUILD, "/* stop */", 1).same(&[
        "byte", "signed", "short", "int", "long", "wide", "unsigned", "size", "yes", "letter", "accent", "newline", "float",
        "double", "unit", "text", "unicode", "empty", "string", "slice", "none_slice", "array", "zeros", "bytes", "tuple",
        "nested", "pair", "point", "reference", "double_reference", "int_reference", "boxed", "marker", "color", "circle",
        "square", "nothing", "some", "none", "some_reference", "no_reference", "good", "bad", "generic", "either", "function",
        "pointer", "vector", "names", "*reference", "reference.x", "point.y", "(*reference).y", "tuple.0", "tuple.1",
        "nested.1[1]", "pair.1", "array[2]", "slice[1]", "*int_reference", "**double_reference", "boxed.x",
        "*boxed", "int + 1", "byte + 1", "int as i64", "byte as i32 + 1", "double * 2.0", "yes && byte > 5", "!yes", "!byte",
        "int < 0", "long >> 4", "size == 12", "point.x == 3", "&point", "&point.x", "5", "5u8", "0xff", "1.5", "true", "'x'",
        "text.length", "text.data_ptr", "slice.length", "sizeof (point)", "pointer as usize == &point as usize", "(*pointer).x",
        "pointer.x", "shapes::LIMIT", "LIMIT", "NAMES", "array[0] + array[1]", "string.vec.len", "vector.len", "either.integer",
        "-int", "int * 2 - 1", "add", "1 == 1", "int == -70000 || yes",
    ]);
}
