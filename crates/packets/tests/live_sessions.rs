//! Whole sessions of the installed GDB with the installed gdbserver: every packet must be known, and print as it was.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tracewire_packets::log::{Direction, Explainer, packets};
use tracewire_packets::{Notification, Reply, Request};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__thread int mine = 7;
volatile int shared;
char text[64] = "find $#}* me";

static void on_signal(int number) { shared += number; }

static void *work(void *argument)
{
    for (int i = 0; i < 3; i++)
        shared += i + mine;
    return argument;
}

int step(int n)
{
    n = n * 2;
    n = n + shared;
    return n;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    shared = step(argc);
    strcpy(text, "changed");
    raise(SIGUSR1);
    getppid();
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, NULL, 0);
    child = vfork();
    if (child == 0)
        execl("/bin/true", "true", (char *)NULL);
    waitpid(child, NULL, 0);
    puts("done");
    return 42;
}
"#;

/// Runs GDB on the program with these commands, and returns its log.
fn session(commands: &str) -> Vec<u8> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder =
        std::env::temp_dir().join(format!("tracewire-packets-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("cc")
        .args(["-g", "-O0", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .expect("a C compiler is installed");
    assert!(compiled.success());
    let script = folder.join("script");
    std::fs::write(&script, SETTINGS).unwrap();
    let commands = commands.replace("PROGRAM", &name(&program));
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-x"])
        .arg(&script)
        .current_dir(&folder);
    if commands.contains("actions") {
        // Lists of actions can be read from a file only.
        let commands_file = folder.join("commands");
        std::fs::write(&commands_file, commands).unwrap();
        gdb.arg("-x").arg(&commands_file);
    } else {
        // A command that fails does not end the session.
        gdb.args(commands.lines().flat_map(|command| ["-ex", command]));
    }
    let output = gdb.arg(&program).output().expect("gdb is installed");
    std::fs::remove_dir_all(&folder).unwrap();
    if std::env::var_os("TRACEWIRE_SHOW_SESSIONS").is_some() {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    }
    output.stderr
}

fn name(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

const SETTINGS: &str = "set pagination off\nset confirm off\nset width 0\nset sysroot\n\
                        set debug remote 1\nset debug remote-packet-max-chars -1\n";

/// Every packet is known, and prints back. Returns the letters of the requests that were seen.
fn check(log: &[u8]) -> Vec<&'static str> {
    let mut seen = Vec::new();
    let mut last = Vec::new();
    let mut explainer = Explainer::default();
    for packet in packets(log) {
        let shown = String::from_utf8_lossy(&packet.payload).into_owned();
        let explained = explainer.explain(&packet);
        assert!(!explained.starts_with("malformed"), "{shown}: {explained}");
        let printed = match packet.direction {
            Direction::Request => {
                let request = Request::parse(&packet.payload).unwrap();
                assert!(!matches!(request, Request::Unknown(_)), "{shown}");
                seen.push(request.prefix());
                last = packet.payload.clone();
                request.to_bytes()
            }
            Direction::Reply => {
                let request = Request::parse(&last).unwrap();
                let reply = Reply::parse(request.reply_kind(), &packet.payload)
                    .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(&last)));
                let ignored = matches!(reply, Reply::Unknown(_));
                assert!(
                    !ignored,
                    "{} answered {shown}",
                    String::from_utf8_lossy(&last)
                );
                reply.to_bytes()
            }
            Direction::Notification => {
                let mut printed = Vec::new();
                Notification::parse(&packet.payload)
                    .unwrap()
                    .print(&mut printed);
                printed
            }
        };
        assert_eq!(String::from_utf8_lossy(&printed), shown);
        assert_eq!(printed, packet.payload, "{shown}");
    }
    seen.sort_unstable();
    seen.dedup();
    seen
}

fn assert_seen(seen: &[&str], expected: &[&str]) {
    for prefix in expected {
        assert!(
            seen.contains(prefix),
            "{prefix} was not sent, only {seen:?}"
        );
    }
}

#[test]
fn a_session_with_one_program() {
    let log = session(
        "target extended-remote | gdbserver --multi -\n\
         set remote exec-file PROGRAM\n\
         set environment COLOUR=blue\nunset environment HOME\nset cwd /tmp\n\
         set breakpoint condition-evaluation target\n\
         set dprintf-style agent\n\
         break step if n > 0\ntbreak main\n\
         run one 'two words'\n\
         info auxv\ninfo os\ninfo sharedlibrary\ninfo proc\n\
         dprintf 33,\"n is %d\\n\", n\n\
         hbreak work\ncontinue\ninfo threads\nprint mine\ndelete\n\
         watch shared\ncontinue\nrwatch shared\nawatch shared\ncontinue\ndelete\n\
         break step\ncontinue\nnext\nstepi\n\
         set var n = 5\nset var text[0] = 'F'\nset var $rax = 1\nprint $xmm0\n\
         find &text[0], +sizeof(text), 'm', 'e'\ncompare-sections .text\n\
         delete\ncatch signal SIGUSR1\ncontinue\ndelete\n\
         handle SIGUSR1 nostop noprint pass\n\
         catch syscall getppid\ncontinue\ncontinue\ndelete\n\
         catch fork\ncatch vfork\ncatch exec\ncontinue\ncontinue\ncontinue\ndelete\n\
         monitor help\nremote put PROGRAM copied\nremote get copied back\nremote delete copied\n\
         print $_siginfo\ncontinue\ntbreak main\nrun\nkill\n",
    );
    let seen = check(&log);
    assert_seen(
        &seen,
        &[
            "qSupported",
            "QStartNoAckMode",
            "!",
            "vRun;",
            "QEnvironmentHexEncoded:",
            "QEnvironmentUnset:",
            "QSetWorkingDir:",
            "Z",
            "z",
            "vCont",
            "m",
            "X",
            "g",
            "qXfer:",
            "qSearch:memory:",
            "qCRC:",
            "qGetTLSAddr:",
            "QCatchSyscalls:",
            "qRcmd,",
            "vFile:open:",
            "vFile:pwrite:",
            "vFile:pread:",
            "vFile:unlink:",
            "vKill;",
            "QPassSignals:",
            "QProgramSignals:",
            "qSymbol:",
            "Hg",
            "vMustReplyEmpty",
        ],
    );
}

#[test]
fn a_session_without_stopping_all() {
    let log = session(
        "set non-stop on\n\
         target remote | gdbserver --once - PROGRAM\n\
         break work\nbreak step\ncontinue\ninfo threads\ncontinue -a\nthread 2\nbt\ncontinue\n\
         info threads\ntstatus\ndetach\n",
    );
    let seen = check(&log);
    assert_seen(
        &seen,
        &["QNonStop:", "vCont", "vStopped", "qTStatus", "qXfer:"],
    );
    let notified = packets(&log).any(|packet| packet.direction == Direction::Notification);
    assert!(notified, "no thread's stop was notified");
}

#[test]
fn a_session_with_old_packets() {
    let log = session(
        "set remote verbose-resume-packet off\nset remote X-packet off\nset remote P-packet off\n\
         set remote multiprocess-feature-packet off\nset remote threads-packet off\n\
         set remote noack-packet off\nset remote swbreak-feature-packet off\n\
         target remote | gdbserver --once - PROGRAM\n\
         break step\ncontinue\nstepi\nset var text[0] = 'F'\nset var $rax = 1\ninfo threads\n\
         handle SIGUSR1 nostop noprint pass\nsignal SIGUSR1\n",
    );
    let seen = check(&log);
    assert_seen(
        &seen,
        &[
            "c",
            "s",
            "M",
            "G",
            "C",
            "Hc",
            "qfThreadInfo",
            "qsThreadInfo",
            "qThreadExtraInfo,",
        ],
    );
}

#[test]
fn a_session_that_traces() {
    let log = session(
        "target remote | gdbserver --once - PROGRAM\n\
         break main\ncontinue\n\
         tvariable $count = 1\n\
         trace step if n > 0\nactions\ncollect $args, $locals, shared, text\nteval $count = $count + 1\n\
         while-stepping 2\ncollect $regs\nend\nend\n\
         trace work\n\
         set trace-notes some notes\nset trace-user me\n\
         tstart\ntstatus\nbreak getppid\ncontinue\ntstop\n\
         tfind start\ntdump\ntfind\ntfind pc $pc\ntfind range 0, -1\ntfind outside 0, 1\ntfind none\ninfo tvariables\n\
         tsave saved.tf\ninfo static-tracepoint-markers\nkill\n",
    );
    let seen = check(&log);
    assert_seen(
        &seen,
        &[
            "QTinit",
            "QTDP:",
            "QTDP:-",
            "QTDPsrc:",
            "QTDV:",
            "QTro",
            "QTStart",
            "QTStop",
            "qTStatus",
            "QTFrame:",
            "qTP:",
            "qTV:",
            "qTfP",
            "qTsP",
            "qTfV",
            "qTsV",
            "qTBuffer:",
            "QTNotes:",
            "QTBuffer:size:",
            "QTBuffer:circular:",
            "QTDisconnected:",
            "qTfSTM",
        ],
    );
}
