use crate::compare::Stopped;

const BUILD: &[&str] = &["g++", "-std=c++20", "-g", "-O0"];

#[test]
fn cpp_values_print_as_in_gdb() {
    Stopped::at("classes.cpp", BUILD, "/* main */", 1).same(&[
        "c", "*pointer", "pointer", "reference", "number_reference", "moved", "text_reference", "what", "flag", "ints",
        "doubles", "alias", "texts", "nothing", "something", "holder", "bits", "choice", "nested", "member", "no_member",
        "method", "function", "function_reference", "truth", "letter", "none", "cv", "array", "circles", "raw",
        "c.name", "c.id", "c.radius", "c.what", "c.data", "pointer->id", "reference.radius", "number_reference + 1",
        "&number_reference", "&reference", "&c.data", "*array[0]", "array[0]->id", "ints.items", "ints.items[1]", "ints.items[1] + 1",
        "shapes::counter", "shapes::hidden", "counter", "shapes::base::live", "base::live", "c.live", "c.limit",
        "shapes::first", "second", "flag == second", "what == shapes::kind::square", "shapes::kind::circle",
        "sizeof (circle)", "sizeof c", "(circle *) pointer", "*(circle *) pointer",
        "(named *) &c", "*(named *) &c", "static_cast<int> (3.5)", "reinterpret_cast<long> (pointer) == (long) &c",
        "true", "false", "1 == 1", "!number", "number && truth", "number > 3", "(bool) 5", "add", "&add", "*function", "twice<int>",
        "(box<int, 3> *) &ints", "*(box<int, 3> *) &ints", "(shapes::box<int, 3> *) &ints", "nested.in.deep", "nested.e", "outer::one", "c.base::id",
        "(unsigned long) number", "(char) number_reference", "argv[0] != 0", "holder.r", "holder.r + 1", "bits.b", "vector",
        "(outer::inner *) &nested", "lambda", "moved * 2", "*&reference",
    ]);
}

#[test]
fn members_are_found_inside_a_method() {
    let stopped = Stopped::at("classes.cpp", BUILD, "/* method */", 1);
    stopped.same(&[
        "radius", "this", "*this", "this->radius", "id", "data", "name", "local", "calls", "what", "live", "counter",
        "kind::circle", "what == kind::circle", "radius > 2", "local + id",
    ]);
    stopped.same_list("$args", "info args");
    stopped.same_list("$locals", "info locals");
}
