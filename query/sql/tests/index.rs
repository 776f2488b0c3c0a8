//! The frame index of a large file leaves out frames, and no row.

mod support;

use std::collections::BTreeMap;

use support::{Shop, options, rows};
use tracewire_sql::{Database, Options};
use tracewire_tracefile::IndexCache;

/// How many frames a plan reads.
fn frames_read(database: &mut Database, sql: &str) -> u64 {
    let plan = database.explain(sql, &BTreeMap::new()).expect("a plan");
    let rest = plan.split_once("frames=").expect("frames").1;
    rest.split_once(' ')
        .expect("a number")
        .0
        .parse()
        .expect("a number")
}

#[test]
fn an_index_leaves_out_frames_and_no_row() {
    let shop = Shop::build();
    let run = shop.record_these(
        "large",
        20_000,
        &["sell : *item, key, id", "ship : order, to"],
    );
    let options = Options {
        index: Some(IndexCache::new(shop.path("cache"))),
        ..options()
    };
    let open = || {
        Database::open(std::slice::from_ref(&run), options.clone(), |note| {
            panic!("{note}")
        })
        .expect("opened")
    };
    // The first one has made the index, the second one uses it.
    let mut databases = [open(), open()];
    let [_, indexed] = &mut databases;
    let all = rows(
        indexed,
        "select count(*), min(time_ns), max(time_ns), max(pc) from hits",
    )
    .expect("rows");
    let numbers: Vec<i64> = all[0]
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [count, first, last, address] = numbers[..] else {
        panic!("{all:?}");
    };
    assert_eq!(count, 60_000);
    let (start, end) = (
        first + (last - first) / 10 * 4,
        first + (last - first) / 10 * 5,
    );
    // For the second one of each pair, only the engine applies the filter.
    for (pushed, plain, most) in [
        (
            format!("time_ns between {start} and {end}"),
            format!("time_ns + 0 between {start} and {end}"),
            40_000,
        ),
        (
            format!("time_ns < {first}"),
            format!("time_ns + 0 < {first}"),
            32,
        ),
        (
            format!("pc = {address}"),
            format!("pc + 0 = {address}"),
            40_000,
        ),
        (
            "tracepoint = 2".to_owned(),
            "tracepoint + 0 = 2".to_owned(),
            20_000,
        ),
        (
            "frame in (5, 8000, 59999, 60000)".to_owned(),
            "frame + 0 in (5, 8000, 59999, 60000)".to_owned(),
            3,
        ),
    ] {
        let sql = |filter: &str| {
            format!(
                "select count(*), sum(frame), sum(line), count(distinct thread) from hits where {filter}"
            )
        };
        let expected = rows(&mut databases[0], &sql(&plain)).expect("rows");
        for database in &mut databases {
            assert_eq!(
                rows(database, &sql(&pushed)).expect("rows"),
                expected,
                "{pushed}"
            );
        }
        let read = frames_read(&mut databases[1], &sql(&pushed));
        assert!(read <= most, "{pushed}: {read} frames");
    }
    let values = format!(
        "select count(*), sum(id), count(distinct \"*item\".name) from tp1 where time_ns between {start} and {end}"
    );
    let [built, indexed] = &mut databases;
    assert_eq!(
        rows(built, &values).expect("rows"),
        rows(indexed, &values).expect("rows")
    );
    // A wide table has the same columns, whether all frames were looked at or a few.
    let columns = "select string_agg(column_name || ' ' || data_type, ', ' order by ordinal_position) from information_schema.columns where table_name = 'tp1'";
    assert_eq!(
        rows(built, columns).expect("rows"),
        rows(indexed, columns).expect("rows")
    );
}
