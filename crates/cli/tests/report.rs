//! `report`: its page has the contents of `show --json`, for any names and values of the traced program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tracewire_test_support::{Cc, sample};

#[cfg(feature = "browser")]
#[path = "report/browser.rs"]
mod browser;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

const SPECIFICATIONS: [&str; 3] = [
    "span serve : order, $duration, $retval",
    "charge : order, order.note, /s order.note, *order.note, order.kind, token, large, order.items.size(), $stack, count() by order.kind, \
     hist(order.id)",
    "return charge : $retval, line",
];

/// A folder with the program.
struct Shop(tempfile::TempDir);

impl Shop {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/shop.cpp");
        fs::copy(source, folder.path().join("shop.cpp")).unwrap();
        Cc::of("g++")
            .options(&["-g", "-O1"])
            .source(folder.path().join("shop.cpp"))
            .build(folder.path(), "shop");
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(TRACEWIRE)
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Its output.
    fn tracewire(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn record(&self, options: &[&str], file: &str, program: &[&str]) {
        let mut arguments = vec!["record"];
        arguments.extend(options);
        for specification in SPECIFICATIONS {
            arguments.extend(["-t", specification]);
        }
        arguments.extend(["-o", file, "--", "./shop"]);
        arguments.extend(program);
        self.tracewire(&arguments);
    }

    fn report(&self, options: &[&str]) -> String {
        let mut arguments = vec!["report", "-o", "page.html"];
        arguments.extend(options);
        self.tracewire(&arguments);
        fs::read_to_string(self.0.path().join("page.html")).unwrap()
    }

    /// The hits as `show` has them, and the rows of aggregates.
    fn shown(&self, file: &str) -> (Vec<Value>, Vec<Value>) {
        let text = self.tracewire(&["show", "--json", file]);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.partition(|line: &Value| line["kind"] != "aggregate")
    }
}

/// The block of data of a page.
fn block(page: &str) -> Value {
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"data\">")
        .expect("a block");
    let (block, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(block).expect("JSON")
}

/// The hits of a page as `show --json` has them.
fn hits(data: &Value) -> Vec<Value> {
    let text = |number: &Value| data["texts"][number.as_u64().unwrap() as usize].clone();
    let origin: u64 = data["time_origin_ns"].as_str().unwrap().parse().unwrap();
    let count = data["rows"]["frame"].as_array().unwrap().len();
    let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
    let hit = |at: usize| {
        let cell = |name: &str| data["rows"][name][at].clone();
        let mut hit = json!({
            "frame": cell("frame"),
            "tracepoint": cell("tracepoint"),
            "kind": text(&cell("kind")),
            "time_ns": cell("time").as_u64().map(|time| origin + time),
        });
        for (name, cell) in [
            ("process", cell("process")),
            ("thread", cell("thread")),
            ("cpu", cell("cpu")),
            ("parent", cell("parent")),
            ("duration_ns", cell("duration")),
        ] {
            if !cell.is_null() {
                hit[name] = cell;
            }
        }
        if !cell("ended").is_null() {
            hit["ended"] = text(&cell("ended"));
        }
        let place = &data["places"][cell("place").as_u64().unwrap() as usize];
        for (name, value) in place.as_object().unwrap() {
            hit[name] = value.clone();
        }
        let number = hit["tracepoint"].as_i64().unwrap();
        let ordinal = seen.entry(number).or_default();
        let mut values = Vec::new();
        for column in data["columns"].as_array().unwrap() {
            if column["tracepoint"] != number {
                continue;
            }
            let shown = match (&column["integers"][*ordinal], &column["texts"][*ordinal]) {
                (Value::Number(integer), _) => integer.to_string().into(),
                (_, Value::Number(_)) => text(&column["texts"][*ordinal]),
                _ => continue,
            };
            let mut value = json!({ "expression": column["expression"], "value": shown });
            let errors = column["errors"].as_array().into_iter().flatten();
            for error in errors.filter(|error| error[0] == *ordinal) {
                value["error"] = text(&error[1]);
            }
            values.push(value);
        }
        *ordinal += 1;
        hit["values"] = values.into();
        let stack = cell("stack")
            .as_u64()
            .map(|at| &data["stacks"][at as usize]);
        hit["stack"] = stack
            .map_or(0, |stack| stack.as_array().unwrap().len())
            .into();
        hit
    };
    (0..count).map(hit).collect()
}

/// The page's form of a hit of `show --json`.
fn as_in_page(shown: &Value) -> Value {
    let mut hit = json!({
        "time_ns": shown["time_ns"].as_u64().or_else(|| Some(shown["time_us"].as_u64()? * 1000)),
        "stack": shown["stack"].as_array().map_or(0, Vec::len),
    });
    for name in [
        "frame",
        "tracepoint",
        "kind",
        "process",
        "thread",
        "cpu",
        "parent",
        "duration_ns",
        "ended",
        "pc",
        "function",
        "file",
        "line",
    ] {
        if let Some(value) = shown.get(name) {
            hit[name] = value.clone();
        }
    }
    let values = shown["values"].as_array().cloned().unwrap_or_default();
    let values = values.into_iter().map(|mut value| {
        value.as_object_mut().unwrap().remove("type");
        value
    });
    hit["values"] = values.collect();
    hit
}

fn sorted(mut hits: Vec<Value>) -> Vec<Value> {
    // The order of objects' fields is not the same.
    let key = |hit: &Value| (hit["process"].as_u64(), hit["frame"].as_u64());
    for hit in &mut hits {
        hit.as_object_mut().unwrap().sort_keys();
        for value in hit["values"].as_array_mut().unwrap() {
            value.as_object_mut().unwrap().sort_keys();
        }
        let values = hit["values"].as_array_mut().unwrap();
        values.sort_by_key(Value::to_string);
    }
    hits.sort_by_key(key);
    hits
}

#[track_caller]
fn assert_equal(page: &str, shown: &[Value]) {
    let found = sorted(hits(&block(page)));
    let wanted = sorted(shown.iter().map(as_in_page).collect());
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
}

/// An execution trace and its program, in a folder of the test: an index is made beside the trace.
fn thumb(folder: &Path) -> [PathBuf; 2] {
    ["thumb.trace.zst", "thumb.elf"].map(|name| {
        let copy = folder.join(name);
        fs::copy(sample(name), &copy).unwrap();
        copy
    })
}

/// The page without its data, style and scripts.
fn words(page: &str) -> String {
    let (start, _) = page
        .split_once("<script type=\"application/json\"")
        .unwrap_or((page, ""));
    start.to_owned()
}

#[test]
fn hits_of_a_page_equal_those_of_show() {
    let shop = Shop::build();
    shop.record(&[], "run.tf", &["60"]);
    let page = shop.report(&["run.tf"]);
    let (shown, aggregates) = shop.shown("run.tf");
    assert_eq!(shown.len(), 60 * 3);
    assert_equal(&page, &shown);
    let words = words(&page);
    // The charts are of the same hits.
    for value in [
        "order.price",
        "order.items",
        "*order.note",
        ">NaN</th>",
        "token",
        "voucher",
        "&lt;unavailable&gt;",
    ] {
        assert!(words.contains(value), "{value}");
    }
    let exceptions = shown.iter().filter(|hit| hit["ended"] == "exception");
    assert_eq!(exceptions.count(), 6);
    assert!(
        words.contains("Ended by") && words.contains("exception"),
        "{words}"
    );
    for row in aggregates
        .iter()
        .filter(|row| row["aggregate"] == "count() by order.kind")
    {
        let (key, value) = (row["key"][0].as_str().unwrap(), &row["value"]);
        let cell = format!(
            "{}</th><td class=\"number\">{value}</td>",
            key.replace('>', "&gt;")
        );
        assert!(words.contains(&cell), "{cell}");
    }
    // The source and the build.
    assert!(
        words.contains("throw std::runtime_error (&quot;declined&quot;)"),
        "{words}"
    );
    let info: Value = serde_json::from_str(&shop.tracewire(&["info", "--json", "run.tf"])).unwrap();
    assert!(words.contains(info["modules"][0]["build_id"].as_str().unwrap()));
    let without = shop.report(&["run.tf", "--no-source"]);
    assert!(!without.contains("declined"));
}

#[test]
fn the_table_of_a_page_has_a_limit_and_the_charts_have_none() {
    let shop = Shop::build();
    shop.record(&[], "run.tf", &["60"]);
    let (shown, _) = shop.shown("run.tf");
    let output = shop.run(&["report", "run.tf", "-o", "page.html", "--rows", "7"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("180 hits in page.html") && said.contains("the first 7 of them"),
        "{said}"
    );
    let page = fs::read_to_string(shop.0.path().join("page.html")).unwrap();
    assert_equal(&page, &shown[..7]);
    assert_eq!(block(&page)["hits"], 180);
    assert!(words(&page).contains("the first 7 of 180 hits"));
    assert!(
        words(&page).contains("0 to 59, median 29"),
        "the chart of order.id"
    );
}

#[test]
fn a_page_of_counts_alone_has_their_tables_and_no_hits() {
    let shop = Shop::build();
    let specification = "charge : count() by order.kind, hist(order.id)";
    shop.tracewire(&[
        "record",
        "-t",
        specification,
        "-o",
        "run.tf",
        "--",
        "./shop",
        "31",
    ]);
    let page = shop.report(&["run.tf"]);
    assert!(!page.contains("id=\"data\"") && !page.contains("<noscript>"));
    assert!(page.contains("in the counts") && !page.contains("<dt>Hits</dt>"));
    let (_, aggregates) = shop.shown("run.tf");
    let counts = aggregates.iter().filter(|row| row["value"].is_u64());
    assert_eq!(counts.clone().count(), 3);
    for row in counts {
        let (key, value) = (row["key"][0].as_str().unwrap(), &row["value"]);
        let cell = format!("{key}</th><td class=\"number\">{value}</td>");
        assert!(page.contains(&cell), "{cell}");
    }
    assert!(
        page.contains("[16, 32)</th><td class=\"number\">15</td>"),
        "{page}"
    );
}

#[test]
fn a_page_says_how_many_hits_were_skipped() {
    let shop = Shop::build();
    #[rustfmt::skip]
    shop.tracewire(&["record", "--rate", "1/h", "-t", "charge : line", "-o", "run.tf", "--", "./shop", "31"]);
    let page = shop.report(&["run.tf"]);
    assert!(page.contains("30 skipped"), "{}", words(&page));
}

#[test]
fn a_page_of_several_processes_has_the_hits_of_all() {
    let shop = Shop::build();
    shop.record(&["--follow-forks"], "run", &["20", "3"]);
    let page = shop.report(&["run"]);
    let (shown, _) = shop.shown("run");
    assert_eq!(shown.len(), 4 * 20 * 3);
    assert_equal(&page, &shown);
    assert_eq!(words(&page).matches("Child of process").count(), 3);
}

#[test]
fn a_page_of_a_file_without_a_program_has_what_is_in_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    for name in [
        "sample.tf",
        "tfile-basic.tf",
        "tfile-error.tf",
        "without_actions.tf",
    ] {
        let output = Command::new(TRACEWIRE)
            .args(["report", "-o"])
            .args([&page, &sample(name)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let page = fs::read_to_string(&page).unwrap();
        let shown = Command::new(TRACEWIRE)
            .args(["show", "--json"])
            .arg(sample(name))
            .output()
            .unwrap();
        let frames = String::from_utf8(shown.stdout).unwrap().lines().count();
        match frames {
            0 => assert!(!page.contains("id=\"data\"")),
            _ => assert_eq!(
                block(&page)["rows"]["frame"].as_array().unwrap().len(),
                frames
            ),
        }
    }
}

/// Names of the program are text, as values are, and a program cannot name a file that is not its source.
#[test]
fn hostile_names_are_text_and_private_files_stay_out() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("<img src=x onerror=alert(1)>");
    fs::create_dir(&hostile).unwrap();
    let secret = folder.path().join("id_rsa");
    fs::write(&secret, "the private key\n".repeat(30)).unwrap();
    let linked = folder.path().join("key.c");
    std::os::unix::fs::symlink(&secret, &linked).unwrap();
    let source = |name: &Path| {
        format!(
            "# 5 \"{}\"\n__attribute__((noinline)) int steal(int n) {{ asm(\"\"); return n; }}\n",
            name.display()
        )
    };
    let program = Cc::of("gcc")
        .option("-g")
        .text(&format!(
            "{}int main(void) {{ return steal(0); }}\n",
            source(&secret)
        ))
        .build(&hostile, "\"><script>alert(1)<");
    let other = Cc::of("gcc")
        .option("-g")
        .text(&format!(
            "{}int main(void) {{ return steal(0); }}\n",
            source(&linked)
        ))
        .build(&hostile, "linked");
    for program in [program, other] {
        let run = hostile.join("'run\"<b>.tf");
        let recorded = Command::new(TRACEWIRE)
            .args(["record", "-t", "steal : n", "-o"])
            .arg(&run)
            .arg("--")
            .arg(&program)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
        let page = folder.path().join("page.html");
        let output = Command::new(TRACEWIRE)
            .args(["report", "-o"])
            .args([&page, &run])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let page = fs::read_to_string(page).unwrap();
        let words = words(&page);
        assert!(words.contains("steal"), "{words}");
        assert!(!page.contains("the private key"), "{words}");
        for tag in ["<img", "<script>alert", "<b>"] {
            assert!(!page.contains(tag), "{tag}: {words}");
        }
        assert!(
            words.contains("&lt;img src=x onerror=alert(1)&gt;"),
            "{words}"
        );
    }
}

#[test]
fn a_page_of_an_execution_trace_has_its_calls_coverage_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, elf] = thumb(folder.path());
    let run = |command: &str, options: &[&str]| {
        let output = Command::new(TRACEWIRE)
            .arg(command)
            .arg(&trace)
            .arg("--elf")
            .arg(&elf)
            .args(options)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let stack = run("find", &["--json"]);
    let written = stack.lines().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let accesses = line["accesses"].as_array()?.clone();
        let write = accesses.into_iter().find(|one| one["kind"] == "write")?;
        Some(write["address"].as_str()?.to_owned())
    });
    let place = format!("{},4", written.expect("a write"));
    run("report", &["-o", "page.html", "--memory", &place]);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    let grouped = |number: &Value| {
        let number = number.as_u64().unwrap();
        assert!(number < 1000, "no groups");
        number.to_string()
    };
    for line in run("calls", &["--json"]).lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let cells = format!(
            "{}</th><td class=\"number\">{}</td>",
            call["function"].as_str().unwrap(),
            grouped(&call["instructions"])
        );
        assert!(page.contains(&cells), "{cells}");
    }
    for line in run("profile", &["--json"]).lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let cells = format!(
            "{}</th><td class=\"number\">{}</td>",
            one["function"].as_str().unwrap(),
            grouped(&one["own"])
        );
        assert!(page.contains(&cells), "{cells}");
    }
    for line in run("coverage", &[]).lines() {
        let Some((name, rest)) = line.split_once(": ") else {
            continue;
        };
        let Some((executed, _)) = rest.split_once(" of ") else {
            continue;
        };
        if executed != "0" {
            assert!(page.contains(&format!(">{name}</th>")), "{line}");
            assert!(
                page.contains(&format!("<td class=\"number\">{executed}</td>")),
                "{line}"
            );
        }
    }
    for line in run("memory", &[&place]).lines() {
        let line = line.replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&line), "{line}");
    }
    assert!(
        page.contains("class=\"line\" d=\"M"),
        "a chart of the value"
    );
}

#[test]
fn what_cannot_be_done_is_said_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "no trace").unwrap();
    let sample = sample("sample.tf");
    let sample = sample.to_str().unwrap();
    for (arguments, wanted) in [
        (vec!["report", "gone", "-o", "page.html"], "gone"),
        (vec!["report", "text", "-o", "page.html"], "no trace file"),
        (
            vec!["report", sample, "-o", "-"],
            "cannot be standard output",
        ),
        (
            vec!["report", sample, "-o", "gone/page.html"],
            "cannot write gone/page.html",
        ),
        (
            vec!["report", sample, "-o", "page.html", "--memory", "0x10,4"],
            "--memory is for execution traces",
        ),
    ] {
        let output = Command::new(TRACEWIRE)
            .args(&arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    let left: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(left, ["text"]);
}
