//! Runs to ask queries of.

#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tempfile::TempDir;
use tracewire_dataset::{AddOptions, Run, add};
use tracewire_recorder::Recorder;
use tracewire_sql::{Database, Options, QueryError};
use tracewire_test_support::Cc;
use tracewire_tracefile::TraceFile;
use tracewire_views::Program;

const SHOP: &str = r#"
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
enum state { OPEN, PAID = 3 };
struct item { int id; char name[8]; double price; unsigned flags : 3; int below : 4; };
__attribute__((noinline)) int sell(struct item *item, const char *customer, enum state state, uint64_t key, __int128 wide,
                                   float rate, double ratio, _Bool gift, int ID, int id) {
    volatile int sum = 0;
    for (int i = 0; i < ID % 50 * 1000; i++)
        sum += i;
    return item->id + state + (int)key + (int)wide + (customer != 0) + (rate > 0) + (ratio > 0) + gift + ID + id;
}
__attribute__((noinline)) int ship(int order, const char *to) { return order + to[0]; }
static int sales;
static void *work(void *argument) {
    const char *customers[] = {"ada", "gr\303\274n", "bad \377 byte", 0};
    long sum = 0;
    for (int i = 0; i < sales; i++) {
        struct item item = {i, "item", i * 0.5, i % 8, i % 8 - 4};
        item.name[4] = 'a' + i % 26;
        sum += sell(&item, customers[i % 4], i % 2 ? PAID : OPEN, UINT64_MAX - i, -((__int128)1 << 100) - i, 0.1f * i,
                    i % 5 ? i / 3.0 : NAN, i % 3 == 0, i, -i);
        if (i % 2)
            sum += ship(i, "home");
    }
    return (void *)sum;
}
int main(int argc, char **argv) {
    sales = atoi(argv[1]);
    pthread_t other;
    pthread_create(&other, 0, work, 0);
    work(0);
    pthread_join(other, 0);
    return 0;
}
"#;

const COLLECTED: [&str; 2] = [
    "span sell : *item, item->name, customer, state, key, wide, rate, ratio, gift, ID, id, key / 2, $retval",
    "ship : order, to",
];

/// A program, and the data of its runs.
pub struct Shop {
    directory: TempDir,
    program: PathBuf,
}

impl Shop {
    pub fn build() -> Self {
        Self::of(SHOP)
    }

    pub fn of(source: &str) -> Self {
        let directory = TempDir::new().expect("a directory");
        let compiler = Cc::new()
            .option("-O0")
            .option("-lm")
            .option("-pthread")
            .text(source);
        let program = compiler.build(directory.path(), "shop");
        Self { directory, program }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Records a run of so many sales on each of two threads.
    pub fn record(&self, name: &str, sales: usize) -> PathBuf {
        self.record_these(name, sales, &COLLECTED)
    }

    pub fn record_these(&self, name: &str, sales: usize, tracepoints: &[&str]) -> PathBuf {
        let output = self.path(&format!("{name}.tf"));
        let mut recorder = Recorder::spawn(&self.program, vec![sales.to_string()]);
        recorder.output(&output);
        for tracepoint in tracepoints {
            recorder.tracepoint(tracepoint).expect("a tracepoint");
        }
        recorder.record(&mut ()).expect("a recording");
        output
    }
}

/// Adds a run to a dataset by the name that its file has.
pub fn add_to(dataset: &Path, run: &Path) {
    let file = TraceFile::open(run).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let name = run
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let options = AddOptions {
        run: Some(name),
        host: Some("web-1".to_owned()),
    };
    add(dataset, &Run::new(&file, &program), &options).expect("added");
}

/// Two threads, on any machine.
pub fn options() -> Options {
    Options {
        threads: NonZero::new(2),
        memory: 256 << 20,
        ..Options::default()
    }
}

/// The rows of an answer, each as text.
pub fn rows(database: &mut Database, sql: &str) -> Result<Vec<String>, QueryError> {
    let batches: Result<Vec<RecordBatch>, QueryError> =
        database.query(sql, &BTreeMap::new())?.collect();
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches? {
        let columns: Vec<ArrayFormatter<'_>> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column, &options).expect("values"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            rows.push(cells.join(" "));
        }
    }
    Ok(rows)
}
