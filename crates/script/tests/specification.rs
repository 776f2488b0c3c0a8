//! The one-line form, over random specifications.

use proptest::prelude::*;
use proptest::sample::select;
use tracewire_script::{CollectedItems, Script, ScriptActionKind, ScriptTracepoint};

/// The words with a meaning in a script.
const WORDS: [&str; 12] = [
    "collect",
    "teval",
    "while-stepping",
    "stepping",
    "ws",
    "end",
    "if",
    "thread",
    "task",
    "trace",
    "actions",
    "passcount",
];

/// Every name that begins one of them.
fn beginnings() -> Vec<String> {
    let mut all: Vec<String> = WORDS
        .iter()
        .flat_map(|word| (1..=word.len()).map(|length| word[..length].to_owned()))
        // A name of C has no `-`.
        .map(|name| name.replace('-', "_"))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(beginnings()),
        1 => "[a-z_][a-z0-9_]{0,5}",
        1 => select(vec!["$rax", "$args", "$regs", "$_ret", "$hits"]).prop_map(str::to_owned),
    ]
}

/// An expression as people write it: an operator has blanks on both sides or on none.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        6 => name(),
        1 => (name(), name()).prop_map(|(a, b)| format!("{a}::{b}")),
        1 => (name(), 1..99).prop_map(|(a, b)| format!("'{a}.c:{b}'::{a}")),
        1 => select(vec!["\"a : b, if c\"", "':'", "','", "'\"'", "'\\''", "\"\\\", /s x : \"", "7"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let operator = select(vec![
            "+", "-", "*", "/", "%", "<", ">", "<=", "==", "!=", "&", "&&", "||", "|", "^", "<<",
            ">>", "@", ",",
        ]);
        prop_oneof![
            (inner.clone(), name()).prop_map(|(a, b)| format!("{a}->{b}")),
            (inner.clone(), name()).prop_map(|(a, b)| format!("{a}.{b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} [{b}]")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("(char *) {a}")),
            (select(vec!["*", "&", "-", "!", "~"]), inner.clone())
                .prop_map(|(a, b)| format!("{a}{b}")),
            (inner.clone(), operator, inner.clone(), any::<bool>()).prop_map(
                |(a, operator, b, blanks)| {
                    match (operator, blanks) {
                        // A comma at the top level separates the list.
                        (",", _) => format!("({a}, {b})"),
                        (operator, true) => format!("{a} {operator} {b}"),
                        (operator, false) => format!("{a}{operator}{b}"),
                    }
                }
            ),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("{a} ? {b} : {c}")),
        ]
    })
    // By itself, `collect /s x` and `collect/s x` are the action with a format; `&&x` is no expression.
    .prop_filter("a format", |text| {
        !text.starts_with("collect/s ")
            && !text.starts_with("collect /s ")
            && !text.starts_with("&&")
    })
}

fn place() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => name().prop_filter("no variable", |name| !name.starts_with('$')),
        1 => (name(), name()).prop_map(|(a, b)| format!("{a}::{b}<x, 'y'>::operator() (int)")),
        1 => (name(), 1..999).prop_map(|(a, b)| format!("{a}.c:{b}")),
        1 => (name(), name()).prop_map(|(a, b)| format!("{a}.c:{b}")),
        1 => (0..99_999).prop_map(|a| format!("*{a:#x}")),
        1 => (name(), expression()).prop_map(|(a, b)| format!("*({a} + ({b}))")),
        1 => name().prop_map(|a| format!("-m {a}:if")),
    ]
    // `if` and `thread` by themselves begin the condition.
    .prop_filter("a condition", |place| {
        !matches!(place.as_str(), "if" | "thread" | "task")
    })
}

/// The format before the list or an expression of it: none, `/s`, or `/s` with a length.
fn format() -> impl Strategy<Value = Option<Option<u32>>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(None)),
        1 => (1_u32..500).prop_map(|limit| Some(Some(limit))),
    ]
}

fn format_words(format: Option<Option<u32>>) -> String {
    match format {
        None => String::new(),
        Some(None) => "/s ".to_owned(),
        Some(Some(limit)) => format!("/s{limit} "),
    }
}

/// The expressions of a tracepoint, each with the limit of its strings.
fn collected(tracepoint: &ScriptTracepoint) -> Vec<(Option<u32>, String)> {
    let actions = tracepoint.actions.iter();
    let lists = actions.map(|action| match &action.kind {
        ScriptActionKind::Collect {
            string_limit,
            items,
            ..
        } => items
            .iter()
            .map(|item| (*string_limit, item.text().to_owned()))
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    });
    lists.flatten().collect()
}

fn read(specification: &str) -> ScriptTracepoint {
    let mut script = Script::new();
    script
        .read_specification(specification)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(script.tracepoints.len(), 1);
    script.tracepoints.remove(0)
}

#[derive(Clone, Debug)]
struct Specification {
    place: String,
    condition: Option<String>,
    /// `collect` before the list.
    word: bool,
    /// The format of the whole list.
    format: Option<Option<u32>>,
    list: Vec<(Option<Option<u32>>, String)>,
    blanks: (String, String),
}

fn specifications() -> impl Strategy<Value = Specification> {
    let list = prop::collection::vec((format(), expression()), 1..5);
    let condition = prop::option::of(expression());
    let blanks = (select(vec!["", " ", "  "]), select(vec![" ", "  ", "\t"]));
    (place(), condition, any::<bool>(), format(), list, blanks).prop_map(
        |(place, condition, word, format, mut list, blanks)| {
            // A format before the first expression is the list's.
            list[0].0 = None;
            Specification {
                place,
                condition,
                word,
                format,
                list,
                blanks: (blanks.0.to_owned(), blanks.1.to_owned()),
            }
        },
    )
}

impl Specification {
    fn text(&self) -> String {
        let condition = self
            .condition
            .as_ref()
            .map_or_else(String::new, |condition| format!(" if {condition}"));
        let word = if self.word { "collect " } else { "" };
        let (before, after) = &self.blanks;
        let list: Vec<String> = self
            .list
            .iter()
            .map(|(format, expression)| format_words(*format) + expression)
            .collect();
        let list = list.join(",");
        format!(
            "{}{condition}{before}:{after}{word}{}{list}",
            self.place,
            format_words(self.format)
        )
    }

    /// The expected collections.
    fn expected(&self) -> Vec<(Option<u32>, String)> {
        // Without a length a string is cut where GDB cuts one.
        let limit = |format: Option<Option<u32>>| format.map(|limit| limit.unwrap_or(200));
        let list = self.list.iter();
        list.map(|(own, expression)| (limit(*own).or(limit(self.format)), expression.clone()))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The list is read as written; its form in a trace file is read as the same.
    #[test]
    fn a_list_is_collected_as_it_is_written(specification in specifications()) {
        let text = specification.text();
        let tracepoint = read(&text);
        let place = specification.place.strip_prefix("-m ").unwrap_or(&specification.place);
        prop_assert_eq!(tracepoint.location.text(), place, "{}", text);
        let condition = tracepoint.condition.as_ref().map(|condition| condition.text().to_owned());
        prop_assert_eq!(condition.clone(), specification.condition.clone(), "{}", text);
        prop_assert_eq!(collected(&tracepoint), specification.expected(), "{}", text);

        // As a script of GDB.
        let lines = tracepoint.command_lines();
        let command = if specification.place.starts_with("-m ") { "strace" } else { "trace" };
        let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
        let script = format!("{command} {}{condition}\nactions\n{}\nend\n", specification.place, lines.join("\n"));
        let mut again = Script::new();
        again.read_text("again", &script).unwrap_or_else(|error| panic!("{error}"));
        prop_assert_eq!(collected(&again.tracepoints[0]), specification.expected(), "{}", script);
        prop_assert_eq!(again.tracepoints[0].command_lines(), lines.clone());

        // As readers of a trace file see it.
        let mut once: Vec<String> = Vec::new();
        for (_, item) in specification.expected() {
            if !once.contains(&item) {
                once.push(item);
            }
        }
        prop_assert_eq!(CollectedItems::of(&lines).hit, once, "{}", script);
    }

    /// A list without the word before it that begins with a variable named `collect` is about that variable.
    #[test]
    fn a_variable_may_be_named_collect(rest in select(vec![
        "", ", s", "->s", " -> s", ".s", "[s]", " [s]", " * s", "*s", " & s", "&s", " + s", "+s", " - s", "-s", " / s", "/s",
        " % s", " ? s : t", " == s", " != s", " && s", " @ 2",
    ])) {
        let text = format!("f : collect{rest}");
        let items: Vec<String> = collected(&read(&text)).into_iter().map(|(_, item)| item).collect();
        prop_assert_eq!(items.join(", "), format!("collect{rest}"));
    }
}
