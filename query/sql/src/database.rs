//! Runs as a database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DataFusionError, ParamValues, ScalarValue};
use datafusion::datasource::{MemTable, ViewTable, provider_as_source};
use datafusion::error::Result as EngineResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Union, cast, lit,
};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use futures_util::StreamExt as _;
use tokio::runtime::Runtime;
use tracewire_dataset::{
    Execution, ListedFile, Listing, Severity, execution_table_names, is_execution, list,
};
use tracewire_tracefile::IndexCache;
use tracewire_views::words::bytes;

use crate::dataset_table::DatasetTable;
use crate::error::QueryError;
use crate::execution_table::ExecutionTable;
use crate::plain_types::{plain_rows, plain_schema};
use crate::spelling::{Names, words};
use crate::trace_run::TraceRun;
use crate::trace_table::TraceTable;
use crate::unite::{Convert, is_plain_cast, united_schema};
use crate::virtual_table::{AHEAD, Provider};

/// The tables that every run has, or may have.
const COMMON: [&str; 6] = ["runs", "modules", "probes", "hits", "values", "spans"];

/// The columns of a dataset that say which run a row is of. A trace file has none of them.
const OF_RUN: [&str; 3] = ["run", "host", "day"];

/// How many of those that take memory are named where there is not enough.
const CONSUMERS_NAMED: NonZero<usize> = NonZero::new(3).expect("not zero");

/// The stack of a thread, in bytes. The engine walks expressions by recursion.
const STACK: usize = 64 << 20;

/// How queries are answered.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files of the programs, where they are not where they were.
    pub elf: Vec<PathBuf>,
    /// Where the frame indexes of large trace files are kept; without it, every query reads all frames of a file for their places.
    pub index: Option<IndexCache>,
    /// The most memory that sorting, grouping and joining may take, in bytes.
    pub memory: usize,
    /// Where rows are written that do not fit in memory; `None` for the system's directory for temporary files.
    pub spill: Option<PathBuf>,
    /// How many threads work on a query; none for as many as there are processors.
    pub threads: Option<NonZero<usize>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            elf: Vec::new(),
            index: None,
            memory: 1 << 30,
            spill: None,
            threads: None,
        }
    }
}

/// Runs that can be queried.
pub struct Database {
    runtime: Runtime,
    context: SessionContext,
    options: Options,
    traces: Vec<Arc<TraceRun>>,
    /// Execution traces, with their names.
    executions: Vec<(String, Arc<Execution>)>,
    files: Vec<ListedFile>,
    /// The tables that were used.
    tables: HashMap<String, Arc<ViewTable>>,
}

/// A part of a table.
struct Part {
    provider: Arc<dyn TableProvider>,
    /// The run of the part, and its day; a dataset has columns for them.
    of_run: Option<(String, String)>,
}

impl Database {
    /// Opens trace files, execution traces and datasets. Messages about them are passed to `note`, as text with names from files.
    ///
    /// A trace file's run has the name of the file without its ending; where two have the same, the names are the paths.
    ///
    /// # Errors
    /// When one of them cannot be read, or has foreign contents; when two runs have the same name.
    pub fn open(
        paths: &[PathBuf],
        options: Options,
        mut note: impl FnMut(String),
    ) -> Result<Self, QueryError> {
        let names = run_names(paths);
        let (mut traces, mut executions) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        let mut in_datasets = Vec::new();
        for (path, name) in paths.iter().zip(names) {
            if path.is_dir() {
                let found = dataset(path, &mut note)?;
                if found.files.is_empty() {
                    return Err(QueryError::NoRuns { path: path.clone() });
                }
                files.extend(found.files);
                in_datasets.extend(found.runs);
            } else if is_execution(path) {
                executions.push((name, Arc::new(Execution::open(path, &options.elf)?)));
            } else {
                let run =
                    TraceRun::open(path, name, &options.elf, options.index.as_ref(), &mut note)?;
                traces.push(Arc::new(run));
            }
        }
        unlike_names(&traces, &executions, &in_datasets)?;
        let threads = options
            .threads
            .or_else(|| std::thread::available_parallelism().ok());
        let threads = threads.map_or(1, NonZero::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("query")
            .thread_stack_size(STACK)
            .build()
            .map_err(QueryError::Start)?;
        let context =
            context(&options, threads).map_err(|error| QueryError::Engine(Box::new(error)))?;
        Ok(Self {
            runtime,
            context,
            options,
            traces,
            executions,
            files,
            tables: HashMap::new(),
        })
    }

    /// The names of all tables.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        let described = self.traces.iter().flat_map(|run| run.tracepoints());
        let in_datasets = self
            .files
            .iter()
            .filter_map(|file| tracepoint_of(&file.table));
        let tracepoints: BTreeSet<i32> = described.chain(in_datasets).collect();
        let common = COMMON.iter().map(|name| (*name).to_owned());
        let of_executions = execution_table_names().filter(|name| {
            !self.executions.is_empty() || self.files.iter().any(|file| file.table == *name)
        });
        common
            .chain(of_executions.map(str::to_owned))
            .chain(tracepoints.iter().map(|number| format!("tp{number}")))
            .collect()
    }

    /// Executes a query. `parameters` are the values of its `$NAME`.
    ///
    /// # Errors
    /// When it is no query, or refers to something that does not exist.
    pub fn query(
        &mut self,
        sql: &str,
        parameters: &BTreeMap<String, ScalarValue>,
    ) -> Result<Answer<'_>, QueryError> {
        let plan = self.plan(sql, parameters)?;
        let (state, task) = (self.context.state(), self.context.task_ctx());
        let started = self.on_worker(async move {
            let plan = state.create_physical_plan(&plan).await?;
            let mut rows = execute_stream(plan, task)?;
            let schema = plain_schema(&rows.schema());
            // The workers make the rows and pass them on here.
            let mut stream = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), AHEAD);
            let sender = stream.tx();
            stream.spawn(async move {
                while let Some(batch) = rows.next().await {
                    let plain = batch.and_then(|batch| plain_rows(batch, &schema));
                    // The reader has stopped.
                    if sender.send(plain).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            Ok(stream.build())
        });
        let stream = started.map_err(|error| self.engine_error(error))?;
        Ok(Answer {
            schema: stream.schema(),
            stream,
            database: self,
        })
    }

    /// Does something on a thread whose stack is large enough for the engine's recursion.
    fn on_worker<T: Send + 'static>(
        &self,
        work: impl Future<Output = EngineResult<T>> + Send + 'static,
    ) -> EngineResult<T> {
        let done = self.runtime.block_on(self.runtime.spawn(work));
        done.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(ended) => Err(DataFusionError::External(Box::new(ended))),
        })
    }

    /// Explains a query: how many frames are read for each table, and how their rows are processed.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn explain(
        &mut self,
        sql: &str,
        parameters: &BTreeMap<String, ScalarValue>,
    ) -> Result<String, QueryError> {
        let plan = self.plan(sql, parameters)?;
        let state = self.context.state();
        let planned = self.on_worker(async move { state.create_physical_plan(&plan).await });
        let planned = planned.map_err(|error| self.engine_error(error))?;
        Ok(displayable(planned.as_ref()).indent(true).to_string())
    }

    fn plan(
        &mut self,
        sql: &str,
        parameters: &BTreeMap<String, ScalarValue>,
    ) -> Result<LogicalPlan, QueryError> {
        let mut words = words(sql)?;
        let names = self.provide_tables(&words)?;
        names.spell(&mut words);
        let statement = parse(sql, words)?;
        let (state, parameters) = (self.context.state(), parameters.clone());
        let planned = self.on_worker(async move {
            let plan = state.statement_to_plan(statement).await?;
            let read_only = SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false)
                .with_allow_statements(false);
            read_only.verify_plan(&plan)?;
            if parameters.is_empty() {
                return Ok(plan);
            }
            let values = parameters
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()));
            plan.with_param_values(ParamValues::Map(values.collect()))
        });
        planned.map_err(|error| self.plan_error(error))
    }

    /// Makes the tables that are named in a query, and gives the names that they have.
    fn provide_tables(&mut self, words: &[TokenWithSpan]) -> Result<Names, QueryError> {
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for word in words {
            if let Token::Word(word) = &word.token {
                let small = word.value.to_lowercase();
                if small == "information_schema" || small == "show" {
                    wanted.extend(self.table_names());
                }
                wanted.insert(small);
            }
        }
        let mut names = Names::default();
        for name in wanted {
            if !self.tables.contains_key(&name) {
                let Some(table) = self.table(&name)? else {
                    continue;
                };
                let table = Arc::new(table);
                let known: Arc<dyn TableProvider> = table.clone();
                self.context
                    .register_table(name.as_str(), known)
                    .map_err(|error| QueryError::Engine(Box::new(error)))?;
                self.tables.insert(name.clone(), table);
            }
            if let Some(table) = self.tables.get(&name) {
                names.add(&name);
                names.add_fields(table.schema().fields());
            }
        }
        Ok(names)
    }

    /// A table of all runs; none where no run has it.
    fn table(&self, name: &str) -> Result<Option<ViewTable>, QueryError> {
        let is_common = COMMON.contains(&name);
        let is_of_execution = execution_table_names().any(|known| known == name);
        if !is_common && !is_of_execution && tracepoint_of(name).is_none() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        for (run, execution) in &self.executions {
            let Some(table) = Execution::table(name) else {
                continue;
            };
            let provider: Arc<dyn TableProvider> = match is_of_execution {
                true => {
                    let execution = Arc::clone(execution);
                    Arc::new(Provider(ExecutionTable::new(run.clone(), execution, table)))
                }
                false => {
                    let made = MemTable::try_new(table.schema, vec![vec![execution.run()?]]);
                    Arc::new(made.map_err(|error| QueryError::Engine(Box::new(error)))?)
                }
            };
            parts.push(Part {
                provider,
                of_run: Some((run.clone(), "unknown".to_owned())),
            });
        }
        let traces = self.traces.iter().filter(|_| !is_of_execution);
        for run in traces {
            let layout = match is_common {
                true => run.common_layout(),
                false => run.layout(),
            };
            let Some(table) = layout.table(name) else {
                continue;
            };
            let provider: Arc<dyn TableProvider> = match run.rows(table)? {
                Some(rows) => {
                    let made = MemTable::try_new(rows.schema(), vec![vec![rows]]);
                    Arc::new(made.map_err(|error| QueryError::Engine(Box::new(error)))?)
                }
                None => match TraceTable::new(Arc::clone(run), Arc::clone(&layout), name) {
                    Some(table) => Arc::new(Provider(table)),
                    None => continue,
                },
            };
            parts.push(Part {
                provider,
                of_run: Some((run.name.clone(), run.day())),
            });
        }
        let files: Vec<&ListedFile> = self
            .files
            .iter()
            .filter(|file| file.table == name)
            .collect();
        let cache = self
            .context
            .runtime_env()
            .cache_manager
            .get_file_metadata_cache();
        for table in DatasetTable::open(&files, cache.as_ref())? {
            parts.push(Part {
                provider: Arc::new(table),
                of_run: None,
            });
        }
        if parts.is_empty() && name == "spans" {
            let table = tracewire_dataset::Layout::common().table(name).cloned();
            if let Some(table) = table {
                let made = MemTable::try_new(table.schema, vec![Vec::new()]);
                let made = made.map_err(|error| QueryError::Engine(Box::new(error)))?;
                parts.push(Part {
                    provider: Arc::new(made),
                    of_run: None,
                });
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let plan = united(&parts).map_err(|error| QueryError::Engine(Box::new(error)))?;
        Ok(Some(ViewTable::new(plan, None)))
    }

    fn plan_error(&self, error: DataFusionError) -> QueryError {
        let root = error.find_root().to_string();
        // The engine has no separate kind for this error.
        if let Some(name) = root
            .strip_prefix("Error during planning: table '")
            .and_then(|rest| rest.strip_suffix("' not found"))
        {
            let name = name.rsplit('.').next().unwrap_or(name);
            return QueryError::Table {
                name: name.to_owned(),
                tables: self.table_names(),
            };
        }
        if let Some(what) = root.strip_prefix("Error during planning: ")
            && ["DDL", "DML", "Statement"]
                .iter()
                .any(|kind| what.starts_with(kind))
        {
            return QueryError::ReadOnly(what.to_owned());
        }
        self.engine_error(error)
    }

    fn engine_error(&self, error: DataFusionError) -> QueryError {
        if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
            return QueryError::Memory {
                limit: bytes(self.options.memory as u64),
                spill: self
                    .options
                    .spill
                    .clone()
                    .unwrap_or_else(std::env::temp_dir),
                source: Box::new(error),
            };
        }
        QueryError::Engine(Box::new(error))
    }
}

/// The rows of an answer, in batches.
pub struct Answer<'d> {
    database: &'d Database,
    schema: SchemaRef,
    stream: SendableRecordBatchStream,
}

impl Answer<'_> {
    /// The columns.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<RecordBatch, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.database.runtime.block_on(self.stream.next())?;
        Some(next.map_err(|error| self.database.engine_error(error)))
    }
}

fn context(options: &Options, threads: usize) -> EngineResult<SessionContext> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_information_schema(true);
    // Names have been spelt already.
    config.options_mut().sql_parser.enable_ident_normalization = false;
    // The engine confuses a column of a view with that of the table below, if an expression uses a part of a structure.
    config
        .options_mut()
        .optimizer
        .enable_leaf_expression_pushdown = false;
    // The reserve of each sort for the merge of its spilled rows is a small part of the memory.
    let reserved = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *reserved = (options.memory / (8 * threads)).min(*reserved);
    let pool = FairSpillPool::new(options.memory);
    let pool = TrackConsumersPool::new(pool, CONSUMERS_NAMED);
    let mut runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
    if let Some(spill) = &options.spill {
        runtime = runtime.with_temp_file_path(spill);
    }
    Ok(SessionContext::new_with_config_rt(
        config,
        runtime.build_arc()?,
    ))
}

/// The files and runs of a dataset.
fn dataset(path: &Path, note: &mut impl FnMut(String)) -> Result<Listing, QueryError> {
    let mut listing = list(path)?;
    for finding in std::mem::take(&mut listing.findings) {
        match finding.severity {
            Severity::Error => {
                return Err(QueryError::Foreign {
                    path: finding.path,
                    message: finding.message,
                });
            }
            Severity::Warning => note(format!(
                "{}: passed over: {}",
                finding.path.display(),
                finding.message
            )),
        }
    }
    Ok(listing)
}

/// The names of runs: those of their files without the ending, or the whole paths where two would have one name.
fn run_names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        stem.to_string_lossy().into_owned()
    };
    let mut count: HashMap<String, usize> = HashMap::new();
    for path in paths {
        *count.entry(short(path)).or_default() += 1;
    }
    let name = |path: &PathBuf| match count.get(&short(path)) {
        Some(1) => short(path),
        _ => path.to_string_lossy().into_owned(),
    };
    paths.iter().map(name).collect()
}

/// Makes sure that no two runs have one name.
fn unlike_names(
    traces: &[Arc<TraceRun>],
    executions: &[(String, Arc<Execution>)],
    in_datasets: &[(String, PathBuf)],
) -> Result<(), QueryError> {
    let mut known: HashMap<&str, &Path> = HashMap::new();
    let of_datasets = in_datasets.iter();
    let all = (traces
        .iter()
        .map(|run| (run.name.as_str(), run.path.as_path())))
    .chain(executions.iter().map(|(name, execution)| {
        let path = execution.recording().path();
        (name.as_str(), path)
    }))
    .chain(of_datasets.map(|(run, batch)| (run.as_str(), batch.as_path())));
    for (name, path) in all {
        if let Some(first) = known.insert(name, path) {
            return Err(QueryError::SameName {
                name: name.to_owned(),
                first: first.to_owned(),
                second: path.to_owned(),
            });
        }
    }
    Ok(())
}

/// The tracepoint that a table is of.
fn tracepoint_of(table: &str) -> Option<i32> {
    let number: i32 = table.strip_prefix("tp")?.parse().ok()?;
    (format!("tp{number}") == table).then_some(number)
}

/// One statement.
fn parse(sql: &str, words: Vec<TokenWithSpan>) -> Result<Statement, QueryError> {
    let dialect = DuckDbDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(words);
    let mut statements = parser.parse_statements().map_err(|error| {
        let message = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
            ParserError::RecursionLimitExceeded => "nested too deep".to_owned(),
        };
        let (message, line, column) = place_of(&message);
        QueryError::Syntax {
            message,
            sql: sql.to_owned(),
            line,
            column,
        }
    })?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(Statement::Statement(Box::new(statement))),
        (None, _) => Err(QueryError::Statements(0)),
        (Some(_), others) => Err(QueryError::Statements(others + 1)),
    }
}

/// The parser's message, without the position at its end; 0 without a position.
fn place_of(message: &str) -> (String, u64, u64) {
    let found = || {
        let (before, place) = message.rsplit_once(" at Line: ")?;
        let (line, column) = place.split_once(", Column: ")?;
        Some((before.to_owned(), line.parse().ok()?, column.parse().ok()?))
    };
    found().unwrap_or_else(|| (message.to_owned(), 0, 0))
}

/// All parts as one table: `run`, the columns of the parts, `host` and `day`.
fn united(parts: &[Part]) -> EngineResult<LogicalPlan> {
    let schemas: Vec<SchemaRef> = parts.iter().map(|part| part.provider.schema()).collect();
    let own = |schema: &SchemaRef| {
        let fields = schema.fields().iter();
        let own = fields.filter(|field| !OF_RUN.contains(&field.name().as_str()));
        Schema::new(own.cloned().collect::<Vec<_>>())
    };
    let own: Vec<Schema> = schemas.iter().map(own).collect();
    let whole = united_schema(&own);
    let mut plans = Vec::new();
    for part in parts {
        let schema = part.provider.schema();
        let of_path = |name: &str| match (&part.of_run, name) {
            (Some((run, _)), "run") => lit(run.clone()),
            (Some((_, day)), "day") => lit(day.clone()),
            (None, name) if schema.index_of(name).is_ok() => Expr::Column(Column::from_name(name)),
            _ => lit(ScalarValue::Utf8(None)),
        };
        let mut columns = vec![of_path("run").alias("run")];
        for field in whole.fields() {
            let column = match schema.index_of(field.name()) {
                Ok(at) => {
                    let column = Expr::Column(Column::from_name(field.name()));
                    let (from, to) = (schema.field(at).data_type(), field.data_type());
                    as_type(column, from, to)
                }
                Err(_) => lit(ScalarValue::try_new_null(field.data_type())?),
            };
            columns.push(column.alias(field.name()));
        }
        columns.push(of_path("host").alias("host"));
        columns.push(of_path("day").alias("day"));
        let source = provider_as_source(Arc::clone(&part.provider));
        let plan = LogicalPlanBuilder::scan("part", source, None)?.project(columns)?;
        plans.push(Arc::new(plan.build()?));
    }
    match <[_; 1]>::try_from(plans) {
        Ok([plan]) => Ok(Arc::unwrap_or_clone(plan)),
        Err(plans) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(plans)?)),
    }
}

fn as_type(column: Expr, from: &DataType, to: &DataType) -> Expr {
    if from == to {
        column
    } else if is_plain_cast(from, to) {
        cast(column, to.clone())
    } else {
        ScalarUDF::new_from_impl(Convert::new(to.clone())).call(vec![column])
    }
}
