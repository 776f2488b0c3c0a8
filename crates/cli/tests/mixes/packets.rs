//! A run of a mix by packets to `tracewire gdbserver`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tracewire_model::{TracepointDefinition, TracepointKind};

use crate::mix::Mix;
use crate::program::Program;
use crate::wire::{Client, Server};

/// A server without a program, and its client.
pub struct Session {
    _server: Server,
    client: Client,
    folder: PathBuf,
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

impl Session {
    /// Starts the server; it saves in the folder.
    pub fn start(folder: &Path) -> Self {
        let server = Server::start(
            Command::new(env!("CARGO_BIN_EXE_tracewire"))
                .args(["gdbserver", "--multi", "--no-startup-with-shell", "--files"])
                .arg(folder)
                .arg("127.0.0.1:0"),
        );
        let mut client = server.connect();
        client.ask("qSupported:swbreak+;hwbreak+;vContSupported+");
        assert_eq!(client.ask("!"), "OK");
        Self {
            _server: server,
            client,
            folder: folder.to_owned(),
        }
    }

    fn ok(&mut self, packet: &str) {
        assert_eq!(self.client.ask(packet), "OK", "{packet}");
    }

    pub fn record(&mut self, program: &Program, mix: &Mix, trace: &Path, results: &Path) {
        let mut run = format!("vRun;{}", hex(program.path.to_str().unwrap()));
        for argument in mix.arguments(results.to_str().unwrap()) {
            write!(run, ";{}", hex(&argument)).unwrap();
        }
        let started = self.client.ask(&run);
        assert!(started.starts_with("T05"), "{run}: {started}");
        self.ok("QTinit");
        self.ok(&format!(
            "QTBuffer:circular:{}",
            u8::from(mix.buffer.circular)
        ));
        self.ok(&format!("QTBuffer:size:{:x}", mix.buffer.size));
        for chosen in &mix.tracepoints {
            self.define(&chosen.definition(program));
        }
        let breakpoint = format!("0,{:x},1", program.pause);
        if mix.pause.is_some() {
            self.ok(&format!("Z{breakpoint}"));
        }
        self.ok("QTStart");
        let mut stopped = self.client.ask("vCont;c");
        if mix.pause.is_some() {
            assert!(stopped.starts_with("T05"), "{stopped}");
            self.ok("QTStop");
            self.ok(&format!("z{breakpoint}"));
            stopped = self.client.ask("vCont;c");
        }
        assert!(stopped.starts_with("W00"), "{stopped}");
        self.ok(&format!("QTSave:{}", hex("saved.tf")));
        std::fs::rename(self.folder.join("saved.tf"), trace).unwrap();
    }

    fn define(&mut self, definition: &TracepointDefinition) {
        let number = definition.number.0;
        let address = definition.address.0;
        let fast = match definition.kind {
            TracepointKind::Fast { length } => format!(":F{length:x}"),
            _ => String::new(),
        };
        let condition = definition.condition.as_ref().map_or(String::new(), |code| {
            code.iter()
                .fold(format!(":X{:x},", code.len()), |mut text, byte| {
                    write!(text, "{byte:02x}").unwrap();
                    text
                })
        });
        self.ok(&format!(
            "QTDP:{number:x}:{address:x}:E:{:x}:{:x}{fast}{condition}-",
            definition.step_count, definition.pass_count
        ));
        let actions = definition.actions.iter().map(|action| (action, ""));
        let steps = definition.step_actions.iter().map(|action| (action, "S"));
        let all: Vec<_> = actions.chain(steps).collect();
        let mut in_steps = false;
        for (place, (action, prefix)) in all.iter().enumerate() {
            // Only the first action of the steps has the letter, and all after it belong to the steps.
            let letter = if in_steps { "" } else { prefix };
            in_steps |= !prefix.is_empty();
            let more = if place + 1 < all.len() { "-" } else { "" };
            self.ok(&format!(
                "QTDP:-{number:x}:{address:x}:{letter}{action}{more}"
            ));
        }
    }
}
