//! `set`: the settings of a run, and the GDB settings that are accepted without effect.

use crate::actions;
use crate::error::{Problem, ScriptError, near_names};
use crate::model::{BufferSize, Settings};
use crate::number::integer;
use crate::place::Located;

/// The settings of a trace run.
const OURS: &[&str] = &[
    "trace-notes",
    "trace-user",
    "trace-stop-notes",
    "trace-buffer-size",
    "circular-trace-buffer",
    "disconnected-tracing",
    "default-collect",
];

/// GDB's settings that say how GDB looks, talks and finds files: they change nothing of a run.
const HARMLESS: &[&str] = &[
    "annotate",
    "auto-load",
    "auto-solib-add",
    "backtrace",
    "can-use-hw-watchpoints",
    "charset",
    "complaints",
    "confirm",
    "debug",
    "debug-file-directory",
    "debuginfod",
    "detach-on-fork",
    "disable-randomization",
    "disassembly-flavor",
    "displaced-stepping",
    "editing",
    "exec-wrapper",
    "extended-prompt",
    "follow-exec-mode",
    "follow-fork-mode",
    "height",
    "history",
    "host-charset",
    "index-cache",
    "language",
    "listsize",
    "logging",
    "max-completions",
    "may-insert-breakpoints",
    "may-insert-fast-tracepoints",
    "may-insert-tracepoints",
    "mi-async",
    "non-stop",
    "osabi",
    "overload-resolution",
    "pagination",
    "print",
    "prompt",
    "python",
    "remote",
    "remotecache",
    "remotetimeout",
    "scheduler-locking",
    "schedule-multiple",
    "solib-search-path",
    "startup-with-shell",
    "step-mode",
    "stop-on-solib-events",
    "style",
    "substitute-path",
    "suppress-cli-notifications",
    "sysroot",
    "target-async",
    "target-charset",
    "tcp",
    "tdesc",
    "trace-commands",
    "tui",
    "unwindonsignal",
    "verbose",
    "watchdog",
    "width",
    "architecture",
    "endian",
];

/// Obeys `set ARGUMENT`.
pub(crate) fn set(settings: &mut Settings, argument: &Located) -> Result<(), ScriptError> {
    let (name, value) = argument.word();
    if name.is_empty() {
        return Err(ScriptError::new(argument, Problem::Missing("a setting")));
    }
    if name.text().starts_with('$') || matches!(name.text(), "var" | "variable") {
        return Err(ScriptError::new(&name, Problem::ConvenienceVariable));
    }
    if name.text() == "breakpoint" {
        return breakpoint(settings, &value);
    }
    let text = || {
        let text = value.text();
        (!text.is_empty()).then(|| text.to_owned())
    };
    match full_name(name.text()) {
        Some("trace-notes") => settings.notes = text(),
        Some("trace-user") => settings.user = text(),
        Some("trace-stop-notes") => settings.stop_notes = text(),
        Some("trace-buffer-size") => settings.buffer_size = Some(buffer_size(&value)?),
        Some("circular-trace-buffer") => settings.circular = Some(switch(&value)?),
        Some("disconnected-tracing") => settings.disconnected = Some(switch(&value)?),
        Some("default-collect") => {
            settings.default_collect = if value.is_empty() {
                None
            } else {
                let (string_limit, list) = actions::format(&value)?;
                Some(actions::collect_items(string_limit, actions::items(&list)?))
            };
        }
        _ if HARMLESS.contains(&name.text()) => {}
        _ => {
            return Err(ScriptError::new(
                &name,
                Problem::UnknownSetting {
                    name: name.text().to_owned(),
                    near: near_names(name.text(), OURS.iter().copied()),
                },
            ));
        }
    }
    Ok(())
}

/// A setting by its name or by a beginning that only it has.
fn full_name(name: &str) -> Option<&'static str> {
    let mut fitting = OURS.iter().filter(|full| full.starts_with(name));
    match (fitting.next(), fitting.next()) {
        (Some(full), None) if name.len() > 2 => Some(full),
        _ => None,
    }
}

/// `set breakpoint pending on|off|auto`; the other `set breakpoint …` are GDB's affair.
fn breakpoint(settings: &mut Settings, argument: &Located) -> Result<(), ScriptError> {
    let (name, value) = argument.word();
    if name.text() == "pending" {
        settings.pending = match value.text() {
            "auto" | "-1" => None,
            _ => Some(switch(&value)?),
        };
    }
    Ok(())
}

/// GDB's ways to say on and off; nothing means on.
fn switch(value: &Located) -> Result<bool, ScriptError> {
    match value.text() {
        "" | "on" | "1" | "yes" | "enable" => Ok(true),
        "off" | "0" | "no" | "disable" => Ok(false),
        _ => Err(ScriptError::new(value, Problem::NotASwitch)),
    }
}

/// Bytes; `unlimited` and -1 leave it to the target.
fn buffer_size(value: &Located) -> Result<BufferSize, ScriptError> {
    match value.text() {
        "unlimited" | "-1" => Ok(BufferSize::Unlimited),
        text => integer(text).map(BufferSize::Bytes).ok_or_else(|| {
            ScriptError::new(
                value,
                Problem::NotANumber("a size in bytes, or `unlimited`,"),
            )
        }),
    }
}
