//! Errors of unusable queries, files and datasets, and runs with different columns.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use support::{Shop, add_to, options, rows};
use tracewire_sql::{Database, NamedQuery, Options, QueryError, named_queries};

const NONE: fn(String) = |note| panic!("{note}");

fn open(paths: &[&Path]) -> Database {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    Database::open(&paths, options(), NONE).expect("opened")
}

#[track_caller]
fn refused(paths: &[&Path], said: &str) {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    let Err(error) = Database::open(&paths, options(), |_| ()) else {
        panic!("opened; expected {said}");
    };
    let error = chain(&error);
    assert!(error.contains(said), "{error}");
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text = format!("{text}: {one}");
        cause = one.source();
    }
    text
}

#[test]
fn queries_that_are_none_are_refused() {
    let shop = Shop::build();
    let run = shop.record("monday", 3);
    let mut database = open(&[&run]);
    for (sql, said) in [
        ("", "expected one query, found 0 statements"),
        ("select 1; select 2", "found 2 statements"),
        ("selct 1", "selct"),
        ("select frame\n from hits where (", "Expected"),
        ("select 'abc", "Unterminated"),
        (
            "select frame from nowhere",
            "no table nowhere; the tables are runs, modules, probes, hits, values, spans, tp1, tp2",
        ),
        ("select frame from tp7", "no table tp7"),
        ("select fame from hits", "fame"),
        ("select frobnicate(frame) from hits", "frobnicate"),
        ("select frame + function from hits", "coerce arithmetic"),
        ("select frame from hits where frame", "Int64"),
        ("select sum(function) from hits", "sum"),
        ("select $x from hits", "$x"),
        ("drop table hits", "only queries are answered"),
        ("create table x as select 1", "only queries are answered"),
        (
            "insert into hits select * from hits",
            "only queries are answered",
        ),
        ("copy hits to '/tmp/x.parquet'", ""),
        (
            "set datafusion.execution.batch_size = 1",
            "only queries are answered",
        ),
        (
            "create external table x stored as csv location '/etc/passwd'",
            "",
        ),
        ("select * from '/etc/passwd'", "no table"),
        ("select 1 / 0", "ivide by zero"),
        ("select cast(function as bigint) from hits", "Cannot cast"),
        ("select arrow_cast(frame, 'Nonsense') from hits", "Nonsense"),
        ("\u{0}", ""),
        ("select \"\u{1b}[31m\" from hits", ""),
    ] {
        match rows(&mut database, sql) {
            Ok(rows) => panic!("{sql}: {rows:?}"),
            Err(error) => {
                let error = chain(&error);
                assert!(error.contains(said), "{sql}: {error}");
            }
        }
    }
    // None of them has affected the next.
    assert_eq!(
        rows(&mut database, "select count(*) from tp2").expect("rows"),
        ["2"]
    );
    let deep = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(rows(&mut database, &deep).is_err());
    // Expressions with the deepest allowed nesting, and deeper ones.
    let long = |count: usize| {
        format!(
            "select {}frame from tp2 where frame >= 0 limit 1",
            "frame + ".repeat(count)
        )
    };
    assert_eq!(rows(&mut database, &long(500)).expect("rows").len(), 1);
    let error = rows(&mut database, &long(20_000)).expect_err("too long");
    assert!(matches!(error, QueryError::Long { .. }), "{error}");
    let list = vec!["1"; 20_000].join(", ");
    let sql = format!("select count(*) from tp2 where frame in ({list}) or true");
    assert_eq!(rows(&mut database, &sql).expect("rows"), ["2"]);
}

#[test]
fn the_place_of_a_fault_is_shown() {
    let shop = Shop::build();
    let mut database = open(&[&shop.record("monday", 1)]);
    let error = rows(&mut database, "select frame\nfrom hits group frame").expect_err("no query");
    let said = error.to_string();
    assert!(
        said.ends_with("  from hits group frame\n            ^"),
        "{said}"
    );
}

#[test]
fn a_query_that_wants_more_memory_spills_or_says_so() {
    let shop = Shop::build();
    let run = shop.record("monday", 1);
    let spill = shop.path("spill");
    fs::create_dir(&spill).expect("a directory");
    let options = Options {
        memory: 24 << 20,
        threads: NonZero::new(1),
        spill: Some(spill.clone()),
        ..options()
    };
    let mut database = Database::open(&[run], options, NONE).expect("opened");
    let sorted = "select count(*), min(x) from (
        select x, row_number() over (order by x % 1000, y) as place
        from (select x, repeat('x', 100) || x as y from generate_series(1, 300000) t(x))) where place > 1";
    assert_eq!(rows(&mut database, sorted).expect("rows"), ["299999 1"]);
    let joined =
        "with long as (select x, repeat('x', 100) || x as y from generate_series(1, 300000) t(x))
        select count(*) from long a join long b on a.x = b.x and a.y < b.y || 'z'";
    match rows(&mut database, joined) {
        Err(QueryError::Memory { .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(database);
    assert_eq!(fs::read_dir(&spill).expect("the directory").count(), 0);
}

#[test]
fn files_that_are_no_runs_are_refused() {
    let shop = Shop::build();
    let run = shop.record("monday", 10);
    let dataset = shop.path("traces");
    add_to(&dataset, &run);
    let empty = shop.path("empty");
    fs::create_dir(&empty).expect("a directory");
    refused(&[&shop.path("nowhere.tf")], "cannot read");
    refused(&[&shop.path("shop")], "not a trace file");
    refused(&[&empty], "has no runs");
    refused(&[&run, &dataset], "two runs have the name monday");
    refused(&[&run, &run], "two runs have the name");

    fs::write(dataset.join("notes.txt"), "hello").expect("written");
    refused(&[&dataset], "notes.txt: a foreign file");
    fs::remove_file(dataset.join("notes.txt")).expect("removed");

    let table = |name: &str| {
        let mut found = vec![dataset.join("batch=monday/host=web-1")];
        found.extend(
            fs::read_dir(&found[0])
                .expect("days")
                .map(|day| day.expect("a day").path()),
        );
        found
            .pop()
            .expect("a day")
            .join(format!("table={name}/part-0.parquet"))
    };
    let whole = fs::read(table("hits")).expect("read");
    for damaged in [
        &whole[..0],
        &whole[..whole.len() / 2],
        &whole[..whole.len() - 1],
        b"PAR1 of nobody PAR1".as_slice(),
    ] {
        fs::write(table("hits"), damaged).expect("written");
        let mut database = open(&[&dataset]);
        let error = rows(&mut database, "select * from hits").expect_err("damaged");
        assert!(
            error
                .to_string()
                .contains("table=hits/part-0.parquet: not a whole Parquet file"),
            "{error}"
        );
        // The other tables are whole.
        assert_eq!(
            rows(&mut database, "select count(*) from tp2").expect("rows"),
            ["10"]
        );
    }
    fs::copy(table("values"), table("hits")).expect("copied");
    let error = rows(&mut open(&[&dataset]), "select * from hits").expect_err("another table");
    assert!(
        error.to_string().contains("its directory \"hits\""),
        "{error}"
    );
    let mut inner = whole.clone();
    inner[60..90].fill(0xa5);
    fs::write(table("hits"), inner).expect("written");
    assert!(rows(&mut open(&[&dataset]), "select * from hits").is_err());
    fs::write(table("hits"), &whole).expect("written");

    // A writer is at work, or has ended early.
    fs::create_dir(dataset.join(".batch=other.1.unfinished")).expect("made");
    let second = shop.record("tuesday", 2);
    add_to(&dataset, &second);
    let runs = dataset.join("batch=tuesday/host=web-1");
    let day = fs::read_dir(&runs)
        .expect("days")
        .next()
        .expect("a day")
        .expect("a day")
        .path();
    fs::remove_dir_all(day.join("table=runs")).expect("removed");
    let mut notes = Vec::new();
    let mut database =
        Database::open(&[dataset], options(), |note| notes.push(note)).expect("opened");
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].contains("a batch that is not finished"),
        "{notes:?}"
    );
    assert!(
        notes[1].contains("batch=tuesday: passed over: the batch is not whole"),
        "{notes:?}"
    );
    assert_eq!(
        rows(&mut database, "select distinct run from hits").expect("rows"),
        ["monday"]
    );
}

#[test]
fn a_run_that_was_cut_short_is_read_as_far_as_it_is_whole() {
    let shop = Shop::build();
    let run = shop.record("monday", 40);
    let bytes = fs::read(&run).expect("read");
    let mut last = usize::MAX;
    for part in [3, 2, 1] {
        fs::write(&run, &bytes[..bytes.len() * part / 4]).expect("written");
        let mut notes = Vec::new();
        let mut database = Database::open(std::slice::from_ref(&run), options(), |note| {
            notes.push(note)
        })
        .expect("opened");
        assert!(
            notes.iter().any(|note| note.contains("cut short")),
            "{notes:?}"
        );
        let hits = rows(&mut database, "select count(*) from hits").expect("rows");
        let hits: usize = hits[0].parse().expect("a number");
        assert!(hits < last, "{hits}");
        last = hits;
        assert_eq!(
            rows(&mut database, "select ending from runs").expect("rows"),
            ["cut"]
        );
        rows(&mut database, "select * from tp1, spans").expect("rows");
    }
}

#[test]
fn types_that_differ_between_runs_become_one() {
    let source = |kind: &str, part: &str| {
        format!(
            "struct s {{ {part} }}; __attribute__((noinline)) int f({kind} x, struct s *s) {{ return (int)x; }}
            int main(void) {{ struct s s = {{1}}; return f(7, &s) == 8; }}"
        )
    };
    let tracepoint = ["f : x, *s"];
    let of = |name: &str, kind: &str, part: &str| {
        let shop = Shop::of(&source(kind, part));
        let run = shop.record_these(name, 1, &tracepoint);
        (shop, run)
    };
    let whole = of("a-int", "int", "int a;");
    let unsigned = of("b-unsigned", "unsigned long", "unsigned long a; int b;");
    let float = of("c-double", "double", "int a; float c;");
    let dataset = whole.0.path("traces");
    add_to(&dataset, &unsigned.1);
    add_to(&dataset, &float.1);
    for paths in [
        vec![&*whole.1, &*unsigned.1, &*float.1],
        vec![&*whole.1, &*dataset],
    ] {
        let mut database = open(&paths);
        let found = rows(
            &mut database,
            "select run, x, \"*s\".a, \"*s\".b, \"*s\".c, arrow_typeof(x) from tp1 order by run",
        );
        assert_eq!(
            found.expect("rows"),
            [
                "a-int 7.0 1 NULL NULL Float64",
                "b-unsigned 7.0 1 0 NULL Float64",
                "c-double 7.0 1 NULL 0.0 Float64"
            ]
        );
    }
    // Numbers without a fraction keep their digits; a column that is a structure in one run and a number in another is text.
    let mut database = open(&[&whole.1, &unsigned.1]);
    assert_eq!(
        rows(&mut database, "select distinct arrow_typeof(x) from tp1").expect("rows"),
        ["Decimal128(20, 0)"]
    );
    let text = of("d-text", "int", "int a;");
    let text = text.0.record_these("d-text", 1, &["f : s->a, x"]);
    let structure = whole.0.record_these("e-structure", 1, &["f : *s"]);
    let mut database = open(&[&text, &structure]);
    assert_eq!(
        rows(&mut database, "select run, x, \"*s\" from tp1 order by run")
            .expect("rows")
            .len(),
        2
    );
}

#[test]
fn names_that_collide_or_are_not_ascii_can_be_asked_for() {
    let source = "__attribute__((noinline)) int f(int run, int ID, int id, int größe, int tracepoint, int Frame) {
                      return run + ID + id + größe + tracepoint + Frame; }
                  int main(void) { return f(1, 2, 3, 4, 5, 6) == 0; }";
    let shop = Shop::of(source);
    let run = shop.record_these("größe", 1, &["f : run, ID, id, größe, tracepoint, Frame"]);
    let dataset = shop.path("traces");
    let _ = dataset;
    let mut database = open(&[&run]);
    let found = rows(
        &mut database,
        "select RUN, run_2, id, \"ID\", \"id_2\", Größe, \"GRÖSSE\", TracePoint, frame_2, frame from tp1 where tracepoint = 5",
    );
    // `ß` in capitals is not what `SS` is.
    assert!(found.is_err());
    let found = rows(
        &mut database,
        "select RUN, run_2, id, \"ID\" as first, \"id_2\", Größe, TracePoint, frame_2, frame from tp1 where tracepoint = 5",
    );
    assert_eq!(found.expect("rows"), ["größe 1 2 2 3 4 5 6 0"]);
}

#[test]
fn named_queries_answer() {
    let shop = Shop::build();
    let runs = [shop.record("monday", 12), shop.record("tuesday", 13)];
    let mut database = open(&[&runs[0], &runs[1]]);
    for query in named_queries() {
        let mut given = BTreeMap::new();
        if query.parameters.iter().any(|one| one.name == "expression") {
            given.insert("expression".to_owned(), "state".to_owned());
        }
        if query.name == "invariants" {
            // A third of the items are gifts.
            given.insert("exceptions".to_owned(), "9".to_owned());
        }
        let values = NamedQuery::find(query.name)
            .and_then(|query| query.values(&given))
            .expect("values");
        let answer = database.query(query.sql, &values);
        let batches: Result<Vec<_>, _> = answer.expect(query.name).collect();
        let rows: usize = batches
            .expect(query.name)
            .iter()
            .map(|batch| batch.num_rows())
            .sum();
        assert!(rows > 0, "{}", query.name);
    }
}

#[test]
fn filters_leave_the_frames_that_they_name() {
    let shop = Shop::build();
    let run = shop.record("monday", 20);
    let mut database = open(&[&run]);
    let mut plan = |sql: &str| database.explain(sql, &BTreeMap::new()).expect("a plan");
    let said = plan("select \"item->name\" from tp1 where frame between 3 and 5 and thread = 1");
    assert!(said.contains("table=tp1, columns=["), "{said}");
    assert!(
        said.contains("filter=frame@0 >= 3 AND frame@0 <= 5 AND thread@1 = 1"),
        "{said}"
    );
    let number = |said: &str| {
        let rest = said.split_once("frames=").expect("frames").1;
        rest.split_once(' ')
            .expect("a number")
            .0
            .parse::<u64>()
            .expect("a number")
    };
    assert!(number(&said) <= 3, "{said}");
    assert_eq!(
        number(&plan("select frame from hits where frame in (1, 7, 1000)")),
        2
    );
    assert_eq!(number(&plan("select frame from tp2")), 20);
    assert_eq!(
        number(&plan(
            "select frame from hits where tracepoint = 2 and frame >= 0"
        )),
        20
    );
    assert!(!plan("select frame from hits where run = 'tuesday'").contains("TraceScan"));
}
