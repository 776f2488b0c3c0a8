//! The agent's configuration file: TOML.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::unistd::{Gid, Group};
use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};
use toml::Spanned;
use tracewire_script::Script;

use super::probe::Probe;
use crate::value_parser::{parse_size, parse_time};

/// The longest configuration, in bytes; also the longest one that a client may send.
pub const LONGEST: u64 = 1 << 20;

/// How many probes there may be.
pub const MOST_PROBES: usize = 256;

/// The default time of frames in one file.
const ROTATE: Duration = Duration::from_secs(60);

/// The smallest limit of a file, in bytes: with less than the program can write between two checks, the run would end.
const LEAST_BUFFER: u64 = 16 << 20;

/// The configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The agent's directory.
    pub directory: PathBuf,
    /// Where it is talked to.
    pub socket: PathBuf,
    /// The group that may connect, besides root and the agent's own user.
    pub group: Option<Gid>,
    /// Whether runs go into a dataset; the default is that they do if the program for it exists.
    pub dataset: Option<bool>,
    /// The limits of kept runs.
    pub limits: Limits,
    /// By name.
    pub probes: BTreeMap<String, Probe>,
    /// For probes that are added later.
    pub common: Common,
}

/// The settings that all probes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Common {
    rotate: Duration,
    policy: Option<PathBuf>,
    audit: Option<String>,
}

/// The limits of kept runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// In bytes.
    pub size: Option<u64>,
    /// Since a run was finished.
    pub age: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    directory: PathBuf,
    socket: Option<PathBuf>,
    group: Option<Spanned<String>>,
    rotate: Option<Spanned<String>>,
    dataset: Option<bool>,
    policy: Option<PathBuf>,
    audit: Option<String>,
    #[serde(default)]
    limits: LimitTable,
    #[serde(default)]
    probe: Vec<Spanned<ProbeTable>>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct LimitTable {
    size: Option<Spanned<String>>,
    age: Option<Spanned<String>>,
}

/// Probes that a client sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    probe: Vec<Spanned<ProbeTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeTable {
    name: Spanned<String>,
    process: Option<Spanned<Words>>,
    user: Option<Spanned<Words>>,
    unit: Option<Spanned<Words>>,
    cgroup: Option<Spanned<Words>>,
    container: Option<Spanned<Words>>,
    tracepoints: Option<Spanned<Words>>,
    script: Option<Spanned<PathBuf>>,
    rate: Option<Spanned<Words>>,
    budget: Option<Spanned<String>>,
    expire: Option<Spanned<String>>,
    rotate: Option<Spanned<String>>,
    redact: Option<Spanned<Words>>,
    default_redactions: Option<bool>,
    follow_forks: Option<bool>,
    mechanism: Option<Mechanism>,
    buffer_size: Option<Spanned<String>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mechanism {
    Jump,
    Trap,
    Any,
}

/// A string, or a list of strings.
#[derive(Clone, Debug, Default)]
struct Words(Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a list of strings")
            }

            fn visit_str<E>(self, text: &str) -> Result<Words, E> {
                Ok(Words(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = all.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(Of)
    }
}

/// A text with the lines that errors name.
struct Text<'t> {
    text: &'t str,
    shown: String,
}

impl Text<'_> {
    /// An error of a value, with its position, its key, and the expected form.
    fn wrong(&self, span: &Range<usize>, key: &str, what: impl fmt::Display) -> anyhow::Error {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        anyhow::anyhow!("{}:{line}: {key}: {what}", self.shown)
    }

    fn value<T, E: fmt::Display>(
        &self,
        value: &Spanned<String>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        parse(value.get_ref()).map_err(|error| self.wrong(&value.span(), key, error))
    }
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// With the file, the line, the key, and the expected form.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let length = path.metadata().with_context(|| shown.clone())?.len();
        if length > LONGEST {
            bail!("{shown} has more than {LONGEST} bytes");
        }
        let text = std::fs::read_to_string(path).with_context(|| shown.clone())?;
        Self::parse(&text, shown)
    }

    /// Reads a text; `shown` is its name in errors.
    pub fn parse(text: &str, shown: String) -> anyhow::Result<Self> {
        let file: File = parse_toml(text, &shown)?;
        let text = Text { text, shown };
        let group = match &file.group {
            None => None,
            Some(name) => Some(text.value(name, "group", group)?),
        };
        let time = |value: &Option<Spanned<String>>, key: &str| {
            let value = value.as_ref();
            value
                .map(|value| text.value(value, key, parse_time))
                .transpose()
        };
        let size = file.limits.size.as_ref();
        let limits = Limits {
            size: size
                .map(|size| text.value(size, "limits.size", parse_size))
                .transpose()?,
            age: time(&file.limits.age, "limits.age")?,
        };
        let common = Common {
            rotate: time(&file.rotate, "rotate")?.unwrap_or(ROTATE),
            policy: file.policy,
            audit: file.audit,
        };
        let absolute = |path: &Path| std::path::absolute(path).with_context(|| text.shown.clone());
        Ok(Self {
            probes: probes(&text, &file.probe, &common, true)?,
            directory: absolute(&file.directory)?,
            socket: absolute(&file.socket.unwrap_or_else(default_socket))?,
            group,
            dataset: file.dataset,
            limits,
            common,
        })
    }

    /// Reads the probes that a client adds: `[[probe]]` tables. They name no files.
    pub fn added(text: &str, common: &Common) -> anyhow::Result<BTreeMap<String, Probe>> {
        let shown = "the probe".to_owned();
        let added: Added = parse_toml(text, &shown)?;
        probes(&Text { text, shown }, &added.probe, common, false)
    }
}

/// Parses TOML; an error has the line and the expected form.
fn parse_toml<T: serde::de::DeserializeOwned>(text: &str, shown: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let error = error.to_string();
        anyhow::anyhow!("{shown}: {}", error.trim_end())
    })
}

fn group(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(format!("there is no group {name}")),
        Err(error) => Err(format!("the groups cannot be looked up: {error}")),
    }
}

fn probes(
    text: &Text<'_>,
    tables: &[Spanned<ProbeTable>],
    common: &Common,
    may_name_files: bool,
) -> anyhow::Result<BTreeMap<String, Probe>> {
    if tables.len() > MOST_PROBES {
        bail!(
            "{}: {} probes, and {MOST_PROBES} are possible",
            text.shown,
            tables.len()
        );
    }
    let mut all: BTreeMap<String, Probe> = BTreeMap::new();
    for table in tables {
        let probe = probe(text, table, common, may_name_files)?;
        let name = &table.get_ref().name;
        let same = all.values().find(|other| other.chooses_as(&probe));
        if let Some(same) = same {
            let what = format!(
                "it chooses the same processes as {}; one process can have the tracepoints of one probe: put them there",
                same.name
            );
            return Err(text.wrong(&name.span(), "name", what));
        }
        if all.contains_key(&probe.name) {
            let what = format!("there are two probes {}", probe.name);
            return Err(text.wrong(&name.span(), "name", what));
        }
        all.insert(probe.name.clone(), probe);
    }
    Ok(all)
}

/// The default path of the control socket.
pub fn default_socket() -> PathBuf {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !nix::unistd::geteuid().is_root());
    of_user.map_or_else(
        || PathBuf::from("/run/tracewire/agent.sock"),
        |folder| PathBuf::from(folder).join("tracewire-agent.sock"),
    )
}

/// Whether a word can be a part of a path and of the name of a run.
pub fn is_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with(['.', '-'])
        && name.chars().all(is_good)
}

fn probe(
    text: &Text<'_>,
    table: &Spanned<ProbeTable>,
    common: &Common,
    may_name_files: bool,
) -> anyhow::Result<Probe> {
    let span = table.span();
    let table = table.get_ref();
    let name = table.name.get_ref();
    if !is_name(name) {
        let what = "expected 1 to 64 letters, digits, - and _, such as checkout-latency";
        return Err(text.wrong(&table.name.span(), "name", what));
    }
    let key = |key: &str| format!("probe {name}: {key}");
    let mut selection = Vec::new();
    for (option, words) in [
        ("name", &table.process),
        ("user", &table.user),
        ("unit", &table.unit),
        ("cgroup", &table.cgroup),
        ("container", &table.container),
    ] {
        let Some(words) = words else { continue };
        for word in &words.get_ref().0 {
            if option == "user"
                && let Err(error) = crate::selection::user(word)
            {
                return Err(text.wrong(&words.span(), &key("user"), format!("{word}: {error}")));
            }
            selection.push(format!("--{option}={word}"));
        }
    }
    selection.sort();
    selection.dedup();
    if selection.is_empty() {
        let what = "expected which processes: process, user, unit, cgroup or container";
        return Err(text.wrong(&span, &key("process"), what));
    }
    let mut script = Script::new();
    let mut words = Vec::new();
    if let Some(tracepoints) = &table.tracepoints {
        for one in &tracepoints.get_ref().0 {
            (script.read_specification(one))
                .map_err(|error| text.wrong(&tracepoints.span(), &key("tracepoints"), error))?;
            words.push(format!("--tracepoint={one}"));
        }
    }
    if let Some(file) = &table.script {
        let wrong = |what: String| text.wrong(&file.span(), &key("script"), what);
        if !may_name_files {
            let what = "a probe that is added names no files: expected tracepoints";
            return Err(wrong(what.to_owned()));
        }
        let path = file.get_ref();
        if !path.is_absolute() {
            return Err(wrong("expected an absolute path".to_owned()));
        }
        let read = script.read_file(path);
        read.map_err(|error| wrong(error.to_string()))?;
        words.push(format!("--script={}", path.display()));
    }
    if script.tracepoints.is_empty() {
        let what = "expected a tracepoint, such as tracepoints = [\"handle if depth < 3 : $args\"]";
        return Err(text.wrong(&span, &key("tracepoints"), what));
    }
    if script.settings.circular == Some(true) {
        let what = "a circular trace buffer has one file until the run ends, and no files that follow one another";
        return Err(text.wrong(&span, &key("script"), what));
    }
    for rate in table.rate.iter().flat_map(|rates| &rates.get_ref().0) {
        if let (Err(error), Some(rates)) = (crate::rate::parse(rate), &table.rate) {
            return Err(text.wrong(&rates.span(), &key("rate"), error));
        }
        words.push(format!("--rate={rate}"));
    }
    if let Some(budget) = &table.budget {
        text.value(budget, &key("budget"), crate::budget::parse)?;
        words.push(format!("--budget={}", budget.get_ref()));
    }
    for pattern in table.redact.iter().flat_map(|all| &all.get_ref().0) {
        let mut redactions = tracewire_model::Redactions::none();
        if let (Err(error), Some(all)) = (redactions.add(pattern), &table.redact) {
            return Err(text.wrong(&all.span(), &key("redact"), error));
        }
        words.push(format!("--redact={pattern}"));
    }
    if table.default_redactions == Some(false) {
        words.push("--no-default-redactions".to_owned());
    }
    if table.follow_forks == Some(true) {
        words.push("--follow-forks".to_owned());
    }
    // A trap that is left when a recorder is killed ends the program.
    match table.mechanism.unwrap_or(Mechanism::Jump) {
        Mechanism::Jump => words.push("--mechanism=jump".to_owned()),
        Mechanism::Trap => words.push("--mechanism=trap".to_owned()),
        Mechanism::Any => {}
    }
    if let Some(size) = &table.buffer_size {
        let bytes = text.value(size, &key("buffer_size"), parse_size)?;
        if bytes < LEAST_BUFFER {
            let what = "expected 16MiB or more";
            return Err(text.wrong(&size.span(), &key("buffer_size"), what));
        }
        words.push(format!("--buffer-size={bytes}"));
    }
    let rotate = match &table.rotate {
        Some(rotate) => text.value(rotate, &key("rotate"), parse_time)?,
        None => common.rotate,
    };
    words.push(format!("--rotate={}ms", rotate.as_millis().max(1)));
    if let Some(policy) = &common.policy {
        words.push(format!("--policy={}", policy.display()));
    }
    if let Some(audit) = &common.audit {
        words.push(format!("--audit={audit}"));
    }
    let expire = table.expire.as_ref();
    Ok(Probe {
        name: name.clone(),
        selection,
        words,
        expire: expire
            .map(|expire| text.value(expire, &key("expire"), parse_time))
            .transpose()?,
        is_added: !may_name_files,
    })
}
