//! Which tables a run has, and their columns.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::datatypes::{DataType, Field};
use tracewire_expr::Shape;
use tracewire_model::TracepointNumber;
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Program, Viewer};

use crate::column::{Names, data_type, unified};
use crate::table::{FRAME_COLUMNS, Table, fields};

/// The most expressions with columns for one tracepoint. Steps may reach any number of places with other variables; the values of
/// expressions without a column are in `values`.
const MOST_EXPRESSIONS: usize = 2000;

/// Which tables a run has, and their columns. It holds nothing of the file and of the program, so threads may share it.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(crate) tracepoints: BTreeMap<TracepointNumber, Wide>,
    tables: Vec<Table>,
}

/// The table of a tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct Wide {
    pub(crate) table: Table,
    pub(crate) expressions: Vec<Expression>,
    /// Where each expression is: its name, and how many of the same name the frame has before it.
    pub(crate) index: HashMap<(String, usize), usize>,
    /// The contents of each column after those of the frame.
    pub(crate) columns: Vec<(usize, Part)>,
}

impl Wide {
    /// Where the expressions of a frame are, in the order in which it has them. One without a column is nowhere.
    pub(crate) fn places_of<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<(&'n str, Option<usize>)> {
        let mut same: HashMap<&str, usize> = HashMap::new();
        let place = |name: &'n str| {
            let before = same.entry(name).or_default();
            let place = self.index.get(&(name.to_owned(), *before)).copied();
            *before += 1;
            (name, place)
        };
        names.map(place).collect()
    }
}

/// The part of an expression in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Value,
    /// Why there is no value.
    Unavailable,
    /// The bytes of strings that are not UTF-8.
    Bytes,
}

/// An expression that a tracepoint collects: a column, one for why there is no value, and for strings one of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    name: String,
    shape: Option<Shape>,
}

impl Expression {
    pub(crate) fn shape(&self) -> &Shape {
        self.shape.as_ref().unwrap_or(&Shape::Text)
    }
}

impl Layout {
    /// Finds the tables of a run, and their columns. Of a large file whose frame index is known, few frames are read.
    #[must_use]
    pub fn of(file: &TraceFile, program: &Program) -> Self {
        let viewer = Viewer::new(file, program);
        let mut places = Places::new(file);
        match viewer.representatives() {
            Some(frames) => {
                for frame in frames.into_iter().filter_map(|number| file.frame(number)) {
                    places.add(&viewer, frame);
                }
            }
            None => {
                for frame in file.frames().filter(|frame| viewer.is_listed(*frame)) {
                    places.add(&viewer, frame);
                }
            }
        }
        places.layout(file)
    }

    /// The tables whose columns are the same in all runs, with `spans`, and none of a tracepoint.
    #[must_use]
    pub fn common() -> Self {
        let mut tables = common_tables();
        tables.push(Table::spans());
        Self {
            tracepoints: BTreeMap::new(),
            tables,
        }
    }

    /// All tables. `runs` is the first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// A table by its name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// The tables that every run has.
fn common_tables() -> Vec<Table> {
    vec![
        Table::runs(),
        Table::modules(),
        Table::probes(),
        Table::hits(),
        Table::values(),
    ]
}

/// The collected expressions in the frames of a run that were read so far.
pub(crate) struct Places {
    seen: HashSet<(TracepointNumber, PlaceKey)>,
    found: BTreeMap<TracepointNumber, Found>,
}

type PlaceKey = Vec<(Option<tracewire_model::Address>, Option<bool>, usize)>;

impl Places {
    pub(crate) fn new(file: &TraceFile) -> Self {
        let mut found: BTreeMap<TracepointNumber, Found> = BTreeMap::new();
        // A tracepoint that was not hit has a table too.
        for tracepoint in file.description().tracepoints() {
            found.entry(tracepoint.definition.number).or_default();
        }
        Self {
            seen: HashSet::new(),
            found,
        }
    }

    /// Looks at a frame that is listed.
    pub(crate) fn add<'a>(&mut self, viewer: &Viewer<'a>, frame: Frame<'a>) {
        let number = frame.tracepoint();
        if self.seen.insert((number, viewer.place_key(frame))) {
            self.found.entry(number).or_default().add(viewer, frame);
        }
    }

    pub(crate) fn layout(self, file: &TraceFile) -> Layout {
        let tracepoints: BTreeMap<_, _> = (self.found.into_iter())
            .map(|(number, found)| (number, found.wide(number)))
            .collect();
        let mut tables = common_tables();
        if file.spans().iter().next().is_some() {
            tables.push(Table::spans());
        }
        tables.extend(tracepoints.values().map(|wide| wide.table.clone()));
        Layout {
            tracepoints,
            tables,
        }
    }
}

/// The collected expressions in the frames of a tracepoint.
#[derive(Default)]
struct Found {
    expressions: Vec<Expression>,
    index: HashMap<(String, usize), usize>,
}

impl Found {
    fn add<'a>(&mut self, viewer: &Viewer<'a>, frame: Frame<'a>) {
        let mut same: HashMap<String, usize> = HashMap::new();
        for found in viewer.value_shapes(frame) {
            let before = same.entry(found.expression.clone()).or_default();
            let key = (found.expression.clone(), *before);
            *before += 1;
            match self.index.get(&key) {
                Some(at) => {
                    let known = &mut self.expressions[*at];
                    known.shape = match (known.shape.take(), found.shape) {
                        (Some(a), Some(b)) => Some(unified(&a, &b)),
                        (a, b) => a.or(b),
                    };
                }
                None if self.expressions.len() < MOST_EXPRESSIONS => {
                    self.index.insert(key, self.expressions.len());
                    self.expressions.push(Expression {
                        name: found.expression,
                        shape: found.shape,
                    });
                }
                None => {}
            }
        }
    }

    fn wide(mut self, number: TracepointNumber) -> Wide {
        let mut all = fields(FRAME_COLUMNS);
        let mut names = Names::default();
        // A partition of a dataset is a column for its readers.
        for name in ["run", "batch", "host", "day", "table"] {
            names.unique(name);
        }
        for field in &all {
            names.unique(field.name());
        }
        for expression in &mut self.expressions {
            expression.name = names.unique(&expression.name);
        }
        let mut columns = Vec::new();
        for (at, expression) in self.expressions.iter().enumerate() {
            let shape = expression.shape();
            columns.push((at, Part::Value));
            all.push(Field::new(&expression.name, data_type(shape), true));
            let name = names.unique(&format!("{}_unavailable", expression.name));
            all.push(Field::new(name, DataType::Utf8, true));
            columns.push((at, Part::Unavailable));
            if *shape == Shape::String {
                let name = names.unique(&format!("{}_bytes", expression.name));
                all.push(Field::new(name, DataType::Binary, true));
                columns.push((at, Part::Bytes));
            }
        }
        Wide {
            table: Table::new(&format!("tp{}", number.0), all),
            expressions: self.expressions,
            index: self.index,
            columns,
        }
    }
}
