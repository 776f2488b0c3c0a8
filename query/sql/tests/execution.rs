//! Execution traces have the same rows through their index, in a dataset, and as the machine had its state.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use support::{options, rows};
use tempfile::TempDir;
use tracewire_dataset::{AddOptions, Execution, add, check};
use tracewire_sample_machine::{DATA, Machine, Options, Program, Trace};
use tracewire_sql::Database;

/// A trace of the sample machine, its program, and a dataset of both.
struct Traced {
    directory: TempDir,
    options: Options,
    program: Program,
}

impl Traced {
    fn new(cpus: u32) -> Self {
        let directory = TempDir::new().expect("a directory");
        let options = Options {
            footprint: 4096,
            cpus,
            ..Options::default()
        };
        let program = Program::of(&options);
        let traced = Self {
            directory,
            program,
            options,
        };
        fs::write(traced.elf(), traced.program.elf(&traced.options)).expect("written");
        let mut trace = Trace::new(&traced.options);
        let mut file = File::create(traced.trace()).expect("a file");
        trace.write(&mut file, 400_000).expect("written");
        let execution = Execution::open(&traced.trace(), &[traced.elf()]).expect("opened");
        let names = AddOptions {
            run: Some("run".to_owned()),
            host: Some("here".to_owned()),
        };
        let added = add(&traced.dataset(), &execution, &names).expect("added");
        assert_eq!(added.rows["instructions"], trace.instructions());
        assert_eq!(check(&traced.dataset()).expect("checked"), []);
        traced
    }

    fn trace(&self) -> PathBuf {
        self.directory.path().join("run.trace")
    }

    fn elf(&self) -> PathBuf {
        self.directory.path().join("run.elf")
    }

    fn dataset(&self) -> PathBuf {
        self.directory.path().join("dataset")
    }

    /// The trace and the dataset as databases.
    fn open(&self) -> [Database; 2] {
        [self.trace(), self.dataset()].map(|path| {
            let mut options = options();
            options.elf = vec![self.elf()];
            Database::open(&[path], options, |note| panic!("{note}")).expect("opened")
        })
    }

    fn function(&self, name: &str) -> i64 {
        let function = self.program.function(name).expect("a function");
        i64::from(function.start)
    }
}

#[track_caller]
fn answer(database: &mut Database, sql: &str) -> Vec<String> {
    rows(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// What `a0` holds at each call of `mix`: as the machine has it, by the index, and by a join of what was written.
#[test]
fn a_value_at_each_call_is_the_same_through_the_index_and_by_a_join() {
    let traced = Traced::new(1);
    let mix = traced.function("mix");
    let [mut index, mut dataset] = traced.open();

    let count = answer(&mut index, "select count(*) from instructions");
    let mut machine = Machine::new(&traced.options);
    let mut expected = Vec::new();
    for number in 0..count[0].parse::<u64>().expect("a number") {
        // A register is known once it was written, which it is before the first call.
        let a0 = machine.register(4);
        if i64::from(machine.step().address) == mix {
            expected.push(format!("{number} {a0}"));
        }
    }
    assert!(expected.len() > 100, "{}", expected.len());
    let by_index = format!(
        "select instruction, value from register_values where pc = {mix:#x} and register = 'r4' order by instruction"
    );
    assert_eq!(answer(&mut index, &by_index), expected);
    // The index gives these rows and no others, in their order: nothing is made to be compared or sorted again.
    let plan = index.explain(&by_index, &BTreeMap::new()).expect("a plan");
    assert!(
        plan.contains("columns=[instruction, value]")
            && !plan.contains("FilterExec")
            && !plan.contains("SortExec"),
        "{plan}"
    );
    let by_join = "select c.instruction, w.value from calls c left join register_writes w
        on w.cpu = c.cpu and w.register = 'r4' and c.instruction between w.valid_from and w.valid_to
        where c.function = 'mix' order by c.instruction";
    for database in [&mut index, &mut dataset] {
        assert_eq!(answer(database, by_join), expected);
    }

    // A word of memory, which is written all the time.
    let places = answer(
        &mut index,
        "select address, count(*) as writes from memory_writes where size = 4 group by address order by writes desc, address limit 1",
    );
    let address = places[0].split(' ').next().expect("an address");
    let by_index = format!(
        "select instruction, value from memory_values where pc = {mix} and address = {address} and size = 4
            and value is not null order by instruction"
    );
    let by_index = answer(&mut index, &by_index);
    let by_join = format!(
        "select i.instruction, w.value from instructions i join memory_writes w
            on i.instruction between w.valid_from and w.valid_to
            where i.pc = {mix} and w.address = {address} and w.size = 4 order by i.instruction"
    );
    for database in [&mut index, &mut dataset] {
        let joined = answer(database, &by_join);
        assert!(joined.len() > 50, "{}", joined.len());
        // What was read before the first write is known to the index only.
        assert!(by_index.ends_with(&joined), "{address}");
    }
    assert!(u32::try_from(address.parse::<i64>().expect("a number")).is_ok_and(|at| at >= DATA));
}

#[test]
fn filters_are_asked_of_the_index_and_leave_out_no_row() {
    let traced = Traced::new(2);
    let [mut index, mut dataset] = traced.open();
    let mix = traced.function("mix");
    let address = &answer(
        &mut index,
        "select min(address) from memory_accesses where address > 0",
    )[0];
    for (table, pushed, plain, shown) in [
        (
            "instructions",
            format!("pc = {mix}"),
            format!("pc + 0 = {mix}"),
            "code=[0x",
        ),
        (
            "instructions",
            "instruction between 100 and 199".to_owned(),
            "instruction + 0 between 100 and 199".to_owned(),
            "instructions=100 of",
        ),
        (
            "register_writes",
            "register in ('r4', 'r31') and instruction < 2000".to_owned(),
            "register || '' in ('r4', 'r31') and instruction + 0 < 2000".to_owned(),
            "registers=[r31, r4]",
        ),
        (
            "memory_accesses",
            format!("address = {address}"),
            format!("address + 0 = {address}"),
            "memory=[0x",
        ),
        (
            "memory_writes",
            format!("address between {address} and {address} + 64"),
            format!("address + 0 between {address} and {address} + 64"),
            "memory=[0x",
        ),
        (
            "calls",
            format!("address = {mix}"),
            format!("address + 0 = {mix}"),
            "code=[0x",
        ),
    ] {
        let columns = "count(*), count(distinct instruction), sum(instruction)";
        let more = match table {
            "register_writes" | "memory_writes" => {
                ", sum(valid_from), sum(valid_to), sum(value % 1000)"
            }
            "calls" => ", sum(depth), count(caller), min(function)",
            "instructions" => ", min(disassembly), max(code), sum(cpu), sum(time)",
            _ => ", sum(size), min(kind), sum(value % 1000)",
        };
        let sql = |filter: &str| format!("select {columns}{more} from {table} where {filter}");
        let expected = answer(&mut dataset, &sql(&plain));
        assert!(!expected[0].starts_with("0 "), "{table}: {expected:?}");
        for filter in [&pushed, &plain] {
            assert_eq!(
                answer(&mut index, &sql(filter)),
                expected,
                "{table}: {filter}"
            );
        }
        let plan = index
            .explain(&sql(&pushed), &BTreeMap::new())
            .expect("a plan");
        assert!(plan.contains(shown), "{table}: {plan}");
    }
    let first = answer(
        &mut index,
        "select instruction from instructions order by instruction limit 3",
    );
    assert_eq!(first, ["0", "1", "2"]);
}

#[test]
fn all_memory_at_all_times_is_refused() {
    let traced = Traced::new(1);
    let [mut index, mut dataset] = traced.open();
    let error = rows(&mut index, "select * from memory_values").expect_err("refused");
    assert!(error.to_string().contains("where address = "), "{error}");
    let error = rows(&mut dataset, "select * from memory_values").expect_err("no such table");
    assert!(
        error.to_string().contains("no table memory_values"),
        "{error}"
    );
}
