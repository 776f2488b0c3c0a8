//! Web servers, under the load of ApacheBench: nginx and node.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::subject::{Hit, Subject, Work};
use super::free_port;
use super::redis::wait_for_port;
use crate::running::{Running, signal_process};
use crate::setup::Need;
use crate::workspace;

pub struct Web {
    kind: Kind,
    directory: PathBuf,
    port: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nginx,
    /// Nginx with a master process and four workers, which read their configuration again now and then.
    Workers,
    Node,
}

impl Web {
    pub fn nginx() -> Self {
        Self::new(Kind::Nginx)
    }

    pub fn workers() -> Self {
        Self::new(Kind::Workers)
    }

    pub fn node() -> Self {
        Self::new(Kind::Node)
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            directory: PathBuf::new(),
            port: 0,
        }
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("access.log")
    }

    /// The process that nginx has written down.
    fn master(&self) -> Result<u32> {
        let path = self.directory.join("pid");
        let process = std::fs::read_to_string(&path)
            .with_context(|| format!("no process id in {}", path.display()))?;
        Ok(process.trim().parse()?)
    }
}

/// Requests a page so many times, and fails where one answer is wrong.
fn request(port: u16, uri: u64, times: u64) -> Result<()> {
    let text = workspace::output(
        Command::new("ab")
            .args(["-q", "-n", &times.to_string(), "-c", "4"])
            .arg(format!("http://127.0.0.1:{port}/real/{uri}")),
    )?;
    let number = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    if number("Complete requests:") != Some(times)
        || number("Failed requests:") != Some(0)
        || number("Non-2xx responses:").is_some()
    {
        bail!("ab printed {text}");
    }
    Ok(())
}

/// How many different URIs are requested.
const URIS: u64 = 10;

/// Answers each request, and logs its URI.
const SERVER: &str = "\
const http = require('http'), fs = require('fs');
const [port, log] = process.argv.slice(2);
const file = fs.openSync(log, 'w');
const server = http.createServer((request, response) => {
  fs.writeSync(file, `GET ${request.url} HTTP/1.0\\n`);
  if (request.url === '/stop') { response.end('stopping\\n', () => process.exit(0)); return; }
  response.end('answer to ' + request.url + '\\n');
});
server.listen(Number(port), '127.0.0.1', () => console.log('ready'));
";

impl Subject for Web {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Nginx => "nginx",
            Kind::Workers => "nginx-4",
            Kind::Node => "node",
        }
    }

    fn needs(&self) -> &'static [Need] {
        match self.kind {
            Kind::Nginx | Kind::Workers => &[
                Need {
                    what: "/usr/sbin/nginx",
                    package: "nginx-light",
                },
                Need {
                    what: "ab",
                    package: "apache2-utils",
                },
            ],
            Kind::Node => &[
                Need {
                    what: "node",
                    package: "nodejs",
                },
                Need {
                    what: "ab",
                    package: "apache2-utils",
                },
            ],
        }
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.to_owned();
        std::fs::write(directory.join("server.js"), SERVER)?;
        std::fs::create_dir(directory.join("real"))?;
        for uri in 0..URIS {
            std::fs::write(directory.join(format!("real/{uri}")), "answer\n")?;
        }
        Ok(())
    }

    fn spec(&self) -> String {
        match self.kind {
            // The buffer's position, its first member, is where the request begins.
            Kind::Nginx | Kind::Workers => "ngx_http_parse_request_line : /s *(char**)$rsi",
            Kind::Node => "llhttp_execute : /s (char*)$rsi",
        }
        .to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        match self.kind {
            Kind::Nginx => Some(
                "uprobe:/usr/sbin/nginx:ngx_http_parse_request_line { printf(\"%s\\n\", str(*(uint64*)arg1)); }".to_owned(),
            ),
            Kind::Workers => None,
            Kind::Node => {
                let node = crate::setup::find_program("node")?;
                Some(format!(
                    "uprobe:{}:llhttp_execute {{ printf(\"%s\\n\", str(arg1)); }}",
                    node.display()
                ))
            }
        }
    }

    fn dprintf(&self) -> Option<String> {
        let command = match self.kind {
            Kind::Nginx => "dprintf *ngx_http_parse_request_line,\"%.20s\\n\",*(char**)$rsi",
            Kind::Workers => return None,
            Kind::Node => "dprintf *llhttp_execute,\"%.20s\\n\",(char*)$rsi",
        };
        Some(command.to_owned())
    }

    fn command(&mut self) -> Result<Command> {
        self.port = free_port()?;
        match self.kind {
            Kind::Nginx | Kind::Workers => {
                let directory = self.directory.display();
                let (processes, format) = match self.kind {
                    Kind::Workers => ("user root; worker_processes 4;", "$pid $request"),
                    _ => ("master_process off;", "$request"),
                };
                let configuration = format!(
                    "daemon off; {processes} pid {directory}/pid; error_log {directory}/error.log;\n\
                     events {{}}\n\
                     http {{\n\
                       log_format request '{format}'; access_log {directory}/access.log request;\n\
                       server {{ listen 127.0.0.1:{}; root {directory}; }}\n\
                     }}\n",
                    self.port
                );
                let path = self.directory.join("nginx.conf");
                std::fs::write(&path, configuration)?;
                // It appends to its log.
                std::fs::write(self.log_path(), "")?;
                let mut command = Command::new("/usr/sbin/nginx");
                command.arg("-c").arg(path);
                Ok(command)
            }
            Kind::Node => {
                let mut command = Command::new("node");
                command
                    .arg(self.directory.join("server.js"))
                    .arg(self.port.to_string())
                    .arg(self.log_path());
                Ok(command)
            }
        }
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        if self.kind == Kind::Node {
            program.wait_for_line("ready", |line| line == "ready")?;
        }
        wait_for_port(self.port)
    }

    fn forks(&self) -> bool {
        self.kind == Kind::Workers
    }

    fn size(&self) -> u64 {
        40_000
    }

    fn work(&mut self, _program: &mut Running, size: u64) -> Result<Work> {
        let each = size / URIS;
        Work::timed(each * URIS, || {
            for uri in 0..URIS {
                if self.kind == Kind::Workers && uri % 3 == 1 {
                    // New workers begin while the old ones still answer.
                    signal_process(self.master()?, libc::SIGHUP)?;
                }
                request(self.port, uri, each)?;
            }
            Ok(())
        })
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        match self.kind {
            Kind::Nginx | Kind::Workers => signal_process(self.master()?, libc::SIGQUIT)?,
            Kind::Node => {
                workspace::output(
                    Command::new("ab")
                        .args(["-q", "-n", "1"])
                        .arg(format!("http://127.0.0.1:{}/stop", self.port)),
                )?;
            }
        }
        program.succeed().map(drop)
    }

    fn log(&mut self) -> Result<Vec<String>> {
        let path = self.log_path();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("no log in {}", path.display()))?;
        Ok(text
            .lines()
            .filter(|line| line.contains("GET /real/"))
            .map(str::to_owned)
            .collect())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        let request = hit.text()?;
        let line = request.split("\\r").next()?;
        let line = match (self.kind, hit.process) {
            (Kind::Workers, Some(process)) => format!("{process} {line}"),
            _ => line.to_owned(),
        };
        line.contains("GET /real/").then_some(line)
    }
}
