//! The folder in which the suite runs against one server, as `runtest` wants it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::list::{Board, Test};

/// A server's folder.
pub struct Folder {
    root: PathBuf,
    suite: PathBuf,
    pub gdbserver: PathBuf,
}

impl Folder {
    /// Makes the folder `name` in the cache, for an executable with gdbserver's command line.
    pub fn new(cache: &Path, name: &str, suite: &Path, gdbserver: &Path) -> Result<Self> {
        let folder = Self {
            root: std::path::absolute(cache.join(name))?,
            suite: suite.canonicalize()?,
            gdbserver: gdbserver.to_owned(),
        };
        let boards = folder.root.join("boards");
        std::fs::create_dir_all(&boards)?;
        for board in Board::ALL {
            std::fs::create_dir_all(folder.of(board))?;
            std::fs::write(folder.of(board).join("site.exp"), folder.site(board))?;
            std::fs::write(
                boards.join(format!("{}.exp", name_of(board))),
                description(board),
            )?;
        }
        std::fs::write(
            folder.settings(),
            format!(
                "lappend boards_dir \"{}\" \"{}\"\n",
                folder.suite.join("boards").display(),
                boards.display()
            ),
        )?;
        Ok(folder)
    }

    /// Where a board's tests run.
    pub fn of(&self, board: Board) -> PathBuf {
        self.root.join(board.to_string())
    }

    /// Where a test's results go.
    pub fn outputs(&self, test: &Test) -> PathBuf {
        let file = test.file.strip_suffix(".exp").unwrap_or(&test.file);
        self.of(test.board).join("outputs").join(file)
    }

    /// What the variable `DEJAGNU` names.
    pub fn settings(&self) -> PathBuf {
        self.root.join("dejagnu.exp")
    }

    fn site(&self, board: Board) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("srcdir", self.suite.display().to_string()),
            ("objdir", self.of(board).display().to_string()),
            ("subdir", String::new()),
            ("tool", "gdb".to_owned()),
        ] {
            text.push_str(&format!("set {name} \"{value}\"\n"));
        }
        for name in ["host", "build", "target"] {
            text.push_str(&format!("set {name}_triplet x86_64-pc-linux-gnu\n"));
        }
        text.push_str("set build_alias x86_64-pc-linux-gnu\n");
        text
    }
}

/// What the board is called.
pub fn name_of(board: Board) -> String {
    format!("tracewire-{board}")
}

/// The suite's own board, with the library that tests of fast tracepoints link with, and ports that no other run has.
fn description(board: Board) -> String {
    format!(
        "load_board_description \"{}\"\n\
         set_board_info in_proc_agent \"/usr/lib/libinproctrace.so\"\n\
         set ::portnum [expr {{10000 + 20 * ([pid] % 1000)}}]\n",
        board.of_the_suite()
    )
}

/// The results of an earlier run.
pub fn earlier(outputs: &Path) -> Result<String> {
    let file = outputs.join("gdb.sum");
    std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))
}
