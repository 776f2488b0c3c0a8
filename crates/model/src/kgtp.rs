//! Names of trace state variables with a meaning in KGTP, GDB's tracepoints for the Linux kernel.
//!
//! To GDB a trace state variable is a number under any name. KGTP gives some names a meaning: setting `$kret` moves a tracepoint to
//! the function's return, collecting `$bt` collects the stack, `$current_task` is a value of each hit. A script for KGTP needs
//! these meanings, which no other target supports, and its syntax does not show it.

/// The warning for a variable whose name, without the `$`, has a meaning in KGTP; `None` for a name that is a plain variable there
/// too.
///
/// ```
/// use tracewire_model::kgtp_warning;
///
/// let warning = kgtp_warning("kret").expect("KGTP knows it");
/// assert!(warning.ends_with("to KGTP it puts the tracepoint at the function's return"));
/// assert_eq!(kgtp_warning("hits"), None);
/// ```
#[must_use]
pub fn kgtp_warning(name: &str) -> Option<String> {
    let meaning = kgtp_meaning(name)?;
    // A client chooses the name, and the warning is printed on a terminal.
    let name = name.escape_debug();
    Some(format!(
        "${name} is a plain variable here, with no effect; to KGTP it {meaning}"
    ))
}

fn kgtp_meaning(name: &str) -> Option<&'static str> {
    let meaning = match name {
        "kret" => "puts the tracepoint at the function's return",
        "bt" => "collects the stack",
        "current" => "makes the tracepoint collect what the current task has in user space",
        "enable" | "disable" => "enables or disables a tracepoint",
        "printk_tmp" | "printk_level" | "printk_format" | "dump_stack" => {
            "prints to the kernel's log"
        }
        "self_trace" | "no_self_trace" => "says whether KGTP's own processes are traced",
        "ignore_error" | "last_errno" | "pipe_trace" => "says how KGTP starts and reports a run",
        "gtp_version" | "gtp_rb_discard_page_number" | "cpu_number" | "inferior_pid" => {
            "is a value of the target"
        }
        "cpu_id"
        | "current_task"
        | "current_task_pid"
        | "current_task_user"
        | "current_thread_info"
        | "task_pt_regs"
        | "clock"
        | "cooked_clock"
        | "rdtsc"
        | "cooked_rdtsc"
        | "xtime_sec"
        | "xtime_nsec"
        | "hardirq_count"
        | "softirq_count"
        | "irq_count" => "is a value that each hit has",
        "step_count" | "step_id" => "steps a tracepoint",
        _ if name.starts_with("watch_") => "controls a hardware watchpoint",
        _ if name.starts_with("pe_") || name.starts_with("pc_pe_") => {
            "controls a performance counter"
        }
        _ if name.starts_with("per_cpu_") => "is a variable of each cpu",
        _ => return None,
    };
    Some(meaning)
}
