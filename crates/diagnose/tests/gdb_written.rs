//! Files that GDB itself writes, from runs with gdbserver: read whole, and written again byte for byte.

use std::fs;
use std::path::Path;

use tracewire_diagnose::repair::repair;
use tracewire_diagnose::{Severity, check_structure};
use tracewire_model::StopReason;
use tracewire_test_support::{Cc, Gdb, need};
use tracewire_tracefile::{
    Block, Description, FrameEncoder, FrameFormat, TraceFile, TraceFileWriter,
};

const PROGRAM: &str = r#"
struct node { int value; const char *name; struct node *next; };
struct node second = { 2, "second", 0 };
struct node first = { 1, "first", &second };
int total;
char buffer[300];
int work(struct node *node, int depth) {
    int local = depth * 3;
    total += local + node->value;
    return total;
}
void done(void) {}
int main(void) {
    for (int i = 0; i < 10; i++)
        work(i % 2 ? &first : &second, i);
    done();
    return total == 0;
}
"#;

/// One run: its subject, and GDB's commands before `tstart`.
struct Run {
    name: &'static str,
    bits: u32,
    commands: &'static [&'static str],
    /// How many frames there will be; fewer than 10 where `None`.
    frames: Option<u64>,
    stop: StopReason,
}

const fn run(name: &'static str, commands: &'static [&'static str], frames: u64) -> Run {
    Run {
        name,
        bits: 64,
        commands,
        frames: Some(frames),
        stop: StopReason::Command,
    }
}

const RUNS: [Run; 15] = [
    run(
        "registers",
        &["trace work", "actions", "collect $regs", "end"],
        10,
    ),
    run("nothing", &["trace work"], 10),
    run(
        "arguments",
        &[
            "trace work",
            "actions",
            "collect $args, $locals, total",
            "end",
        ],
        10,
    ),
    run(
        "stepping",
        &[
            "trace work",
            "actions",
            "while-stepping 3",
            "collect $rip, total",
            "end",
            "end",
        ],
        40,
    ),
    run(
        "variables",
        &[
            "tvariable $low = -5",
            "tvariable $high = 0x7fffffffffffffff",
            "trace work",
            "actions",
            "teval $low = $low - 1",
            "collect $low, $high, $trace_timestamp",
            "end",
        ],
        10,
    ),
    run(
        "notes",
        &[
            "set trace-notes some notes; of mine",
            "set trace-user bob",
            "set trace-stop-notes why",
            "trace work",
        ],
        10,
    ),
    run("empty", &["trace done", "disable 2"], 0),
    Run {
        stop: StopReason::PassCount,
        ..run(
            "pass-count",
            &[
                "trace work",
                "passcount 3",
                "actions",
                "collect total",
                "end",
            ],
            3,
        )
    },
    // gdbserver continues with empty frames when its buffer is full.
    run(
        "full",
        &[
            "set trace-buffer-size 6000",
            "trace work",
            "actions",
            "collect $regs",
            "end",
        ],
        10,
    ),
    // What gdbserver saves of a circular buffer for three frames and more is damaged.
    Run {
        frames: None,
        ..run(
            "circular",
            &[
                "set trace-buffer-size TWO_FRAMES",
                "set circular-trace-buffer on",
                "trace work",
                "actions",
                "collect $regs",
                "end",
            ],
            4,
        )
    },
    run(
        "condition",
        &[
            "trace work if depth > 3 && node->value == 1",
            "trace work",
            "disable $bpnum",
        ],
        3,
    ),
    run(
        "strings",
        &[
            "trace work",
            "actions",
            "collect/s node->name",
            "collect buffer, *node",
            "end",
        ],
        10,
    ),
    run(
        "long",
        &[
            "trace work if depth >= 0 && depth + 1 > 0 && depth + 2 > 0 && depth + 3 > 0 && depth + 4 > 0",
            "actions",
            "collect node->value, node->name, *node, total, first, second, first.next->value, second.value + depth",
            "collect buffer[depth], buffer[depth + 1], buffer[depth + 2], first.name, second.name, node->value * 2",
            "end",
        ],
        10,
    ),
    Run {
        bits: 32,
        ..run(
            "registers-32",
            &["trace work", "actions", "collect $regs, $args", "end"],
            10,
        )
    },
    Run {
        bits: 32,
        ..run(
            "stepping-32",
            &[
                "trace work",
                "actions",
                "collect total",
                "while-stepping 2",
                "collect $regs",
                "end",
                "end",
            ],
            30,
        )
    },
];

/// Compiles the program.
fn compile(folder: &Path, bits: u32) -> String {
    let program = Cc::new()
        .options(&["-O0", &format!("-m{bits}")])
        .text(PROGRAM)
        .build(folder, &format!("program{bits}"));
    program.display().to_string()
}

fn encode_all(file: &TraceFile, path: &Path) {
    let format = FrameFormat {
        byte_order: file.byte_order(),
        register_block_size: file.register_block_size().unwrap(),
    };
    let mut writer = TraceFileWriter::create(path, file.description()).unwrap();
    for frame in file.frames() {
        let mut bytes = Vec::new();
        let mut encoder = FrameEncoder::begin(&mut bytes, format, frame.tracepoint()).unwrap();
        for block in frame.blocks() {
            match block {
                Block::Registers(block) => encoder.registers(block).unwrap(),
                Block::Memory { address, bytes } => encoder.memory(address, bytes),
                Block::Variable { number, value } => encoder.variable(number, value),
                other => panic!("{other:?}"),
            }
        }
        encoder.finish().unwrap();
        writer.append(&bytes).unwrap();
    }
    writer.finish_unsealed().unwrap();
}

#[test]
fn what_gdb_saves_is_read_and_written_byte_for_byte() {
    need!("gdbserver");
    let folder = tempfile::tempdir().unwrap();
    // A size for two frames with this machine's registers, once the first run shows it.
    let mut two_frames = 0;
    for Run {
        name,
        bits,
        commands,
        frames,
        stop,
    } in RUNS
    {
        let program = compile(folder.path(), bits);
        let saved = folder.path().join(format!("{name}.tf"));
        let script = folder.path().join(format!("{name}.gdb"));
        let text = format!(
            "set sysroot\nset remotetimeout 60\nfile {program}\ntarget remote | gdbserver --once - {program}\n\
             break main\ncontinue\n{}\ntstart\nbreak done\ncontinue\ntstop\ntsave {}\nkill\n",
            (commands.join("\n")).replace("TWO_FRAMES", &two_frames.to_string()),
            saved.display()
        );
        fs::write(&script, text).unwrap();
        let said = Gdb::new()
            .commands(&[format!("source {}", script.display())])
            .run()
            .all();
        let file =
            TraceFile::open(&saved).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
        if name == "registers" {
            two_frames = file.register_block_size().unwrap() * 5 / 2;
        }

        let count = file.frame_count();
        assert!(
            frames.map_or((1..10).contains(&count), |frames| count == frames),
            "{name}: {count}: {said}"
        );
        let status = &file.description().status().unwrap().fields;
        assert_eq!(
            (status.frames, status.stop_reason),
            (Some(count), Some(stop)),
            "{name}"
        );
        let mut errors = Vec::new();
        check_structure(&file, &mut |finding| {
            if finding.fault.severity() == Severity::Error {
                errors.push(finding);
            }
        });
        assert_eq!(errors, [], "{name}");

        let original = fs::read(&saved).unwrap();
        let copy = folder.path().join("copy.tf");
        encode_all(&file, &copy);
        assert!(
            fs::read(&copy).unwrap() == original,
            "{name}: written again, it differs"
        );
        assert_eq!(repair(&original, &copy).unwrap().changes, [], "{name}");
        assert!(
            fs::read(&copy).unwrap() == original,
            "{name}: repaired, it differs"
        );
        let built = Description::build(&file.description().parts()).unwrap();
        assert_eq!(
            built.tracepoints().len(),
            file.description().tracepoints().len()
        );
    }
}
