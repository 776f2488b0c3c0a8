//! A jump on every instruction of real code: libc's, a C++ program's, a Rust program's.
//!
//! The programs exercise what they can and check their own results. In the suite a sample of the sites is taken; `cargo
//! xtask torture jumps` takes all of them.

mod support;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use support::pads::{count, counting};
use support::{Counter, Program, address, piece};
use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread, Target};
use tracewire_model::Address;
use tracewire_target_linux::{Event, Process};

const LIBC: &str = r#"
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
static long sum;
static void add(const char *text) { for (; *text; text++) sum = sum * 31 + *text; }
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
static jmp_buf back;
static void handler(int signal) { sum += signal; }
static void *thread(void *argument) {
    char text[64];
    snprintf(text, sizeof text, "%s-%d", (char *)argument, 7);
    return strdup(text);
}
__attribute__((noinline)) void checkpoint(void) { __asm__ volatile(""); }
int main(int argc, char **argv) {
    char text[512];
    for (int round = 0; round < 2; round++) {
        char *words[] = { "pear", "apple", "fig", "date", "cherry", "banana" };
        qsort(words, 6, sizeof *words, compare);
        for (int i = 0; i < 6; i++) add(words[i]);
        snprintf(text, sizeof text, "%d %lx %8.3f %g %s %c %p %e", 42, 77L, 3.14159, 1e100, "x", 'y', (void *)8, 2.5e-7); add(text);
        sum += strtol("123", 0, 10) + strtoul("ff", 0, 16) + (long)strtod("1.5e3", 0) + atoi("9");
        strcpy(text, "one,two;three"); for (char *save, *word = strtok_r(text, ",;", &save); word; word = strtok_r(0, ",;", &save)) add(word);
        memset(text, 'a', 300); text[300] = 0; sum += strlen(text) + (strchr(text, 'b') == 0) + (memchr(text, 'a', 10) == text);
        memmove(text + 3, text, 200); sum += memcmp(text, text + 3, 100) + (strstr("hello world", "o w") != 0);
        regex_t pattern; regcomp(&pattern, "^([a-z]+)[0-9]*$", REG_EXTENDED); sum += regexec(&pattern, "abc123", 0, 0, 0) * 3 + regexec(&pattern, "ABC", 0, 0, 0); regfree(&pattern);
        time_t when = 86400 * 365; struct tm fields; gmtime_r(&when, &fields); strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %j", &fields); add(text); sum += timegm(&fields);
        void *blocks[50]; for (int i = 0; i < 50; i++) blocks[i] = malloc(i * 37 + 1); for (int i = 0; i < 50; i += 2) free(blocks[i]);
        for (int i = 1; i < 50; i += 2) { blocks[i] = realloc(blocks[i], 5000); free(blocks[i]); }
        if (setjmp(back) == 0) longjmp(back, 1); else sum += 5;
        signal(SIGUSR1, handler); raise(SIGUSR1); kill(getpid(), SIGUSR1);
        pthread_t other; void *result; pthread_create(&other, 0, thread, "thread"); pthread_join(other, &result); add(result); free(result);
        pid_t child = fork(); int status; if (child == 0) _exit(7); waitpid(child, &status, 0); sum += WEXITSTATUS(status);
        FILE *stream = tmpfile(); fprintf(stream, "line %d\nnext\n", 5); rewind(stream); while (fgets(text, sizeof text, stream)) add(text); int value; rewind(stream); sum += fscanf(stream, "line %d", &value) + value; fclose(stream);
        wchar_t wide[20]; mbstowcs(wide, "wide", 20); sum += wcslen(wide); setlocale(LC_ALL, "C");
        srand(5); for (int i = 0; i < 10; i++) sum += rand() % 100; sum += abs(-4) + toupper('q') + isdigit('5');
        hcreate(30); ENTRY entry = { "key", (void *)9 }; hsearch(entry, ENTER); entry.data = 0; sum += (long)hsearch(entry, FIND)->data; hdestroy();
        setenv("NAME", "value", 1); add(getenv("NAME")); unsetenv("NAME");
        div_t parts = div(17, 5); sum += parts.quot * 10 + parts.rem; sum += ffs(64) + labs(-3);
    }
    checkpoint();
    FILE *f = fopen(argv[1], "w"); fprintf(f, "sum %ld\n", sum); fclose(f);
    return 0;
}
"#;

const CPP: &str = r#"
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>
static long sum;
struct Shape { virtual ~Shape() {} virtual long area() const = 0; };
struct Square : Shape { long side; Square(long s) : side(s) {} long area() const override { return side * side; } };
struct Circle : Shape { long radius; Circle(long r) : radius(r) {} long area() const override { if (radius < 0) throw std::domain_error("negative"); return radius * radius * 3; } };
struct Guard { long &value; ~Guard() { value += 1; } };
__attribute__((noinline)) long deep(int n) { Guard guard{sum}; if (n == 0) throw std::runtime_error("bottom"); return deep(n - 1) + 1; }
extern "C" __attribute__((noinline)) void checkpoint() { __asm__ volatile(""); }
int main(int argc, char **argv) {
    for (int round = 0; round < 3; round++) {
        std::vector<std::unique_ptr<Shape>> shapes;
        for (int i = 0; i < 20; i++) { if (i % 2) shapes.emplace_back(new Square(i)); else shapes.emplace_back(new Circle(i == 10 ? -1 : i)); }
        for (auto &shape : shapes) { try { sum += shape->area(); } catch (const std::domain_error &error) { sum += std::string(error.what()).size(); } }
        try { deep(12); } catch (const std::exception &error) { sum += error.what()[0]; }
        std::map<std::string, int> counts; std::istringstream words("a b c a b a d e f a"); std::string word; while (words >> word) counts[word]++;
        for (auto &[name, count] : counts) sum = sum * 7 + count * name[0];
        std::unordered_map<int, std::string> table; for (int i = 0; i < 200; i++) table[i * 37] = std::to_string(i); for (int i = 0; i < 200; i++) sum += table.at(i * 37).size();
        std::vector<int> numbers(300); for (int i = 0; i < 300; i++) numbers[i] = (i * 7919) % 1000; std::sort(numbers.begin(), numbers.end()); std::stable_sort(numbers.rbegin(), numbers.rend(), std::greater<int>()); sum += numbers[50];
        std::ostringstream out; out << 3.5 << ' ' << std::hex << 255 << ' ' << true; sum += out.str().size() + out.str()[2];
        std::function<int(int)> twice = [round](int x) { return x * 2 + round; }; sum += twice(21);
        sum += std::regex_match(std::string("ab12"), std::regex("[a-z]+[0-9]+"));
        try { table.at(-1); } catch (const std::out_of_range &) { sum += 11; }
    }
    checkpoint();
    FILE *f = fopen(argv[1], "w"); fprintf(f, "sum %ld\n", sum); fclose(f);
    return 0;
}
"#;

const RUST: &str = r#"
use std::collections::BTreeMap;
#[unsafe(no_mangle)] #[inline(never)] pub extern "C" fn checkpoint() { std::hint::black_box(0); }
#[inline(never)] fn kind(n: u32) -> &'static str { match n % 7 { 0 => "zero", 1 => "one", 2 => "two", 3 => "three", 4 => "four", 5 => "five", _ => "six" } }
fn main() {
    // The standard one may print a backtrace, for which it reads what is mapped: that is more with pads than without.
    std::panic::set_hook(Box::new(|info| { std::hint::black_box(info.to_string()); }));
    let mut sum: i64 = 0;
    for round in 0..3_i64 {
        let mut map = BTreeMap::new();
        for i in 0..300_u32 { map.insert(i.wrapping_mul(2654435761), kind(i).to_owned() + &i.to_string()); }
        for (key, value) in &map { sum = sum.wrapping_mul(31).wrapping_add(i64::from(*key) + value.len() as i64); }
        let mut other: BTreeMap<String, i64> = BTreeMap::new();
        for word in "the quick brown fox jumps over the lazy dog the end".split(' ') { *other.entry(word.to_owned()).or_default() += 1; }
        sum += other["the"] * 100 + other.len() as i64;
        let mut numbers: Vec<i64> = (0..500).map(|i| i * 7919 % 1000).collect(); numbers.sort(); numbers.sort_unstable_by_key(|n| -n); sum += numbers[100];
        let text = format!("{:>8.3}|{:#x}|{:?}|{}", 3.14159, 255, Some("x"), round); sum += text.bytes().map(i64::from).sum::<i64>();
        sum += "12,x,34".split(',').filter_map(|part| part.parse::<i64>().ok()).sum::<i64>();
        let caught = std::panic::catch_unwind(|| { let items = vec![1]; let index = std::hint::black_box(5); items[index] }); sum += i64::from(caught.is_err());
        let (send, receive) = std::sync::mpsc::channel(); let worker = std::thread::spawn(move || { for i in 0..20 { send.send(i).unwrap(); } }); sum += receive.iter().sum::<i64>(); worker.join().unwrap();
    }
    checkpoint();
    std::fs::write(std::env::args().nth(1).unwrap(), format!("sum {sum}\n")).unwrap();
}
"#;

/// The addresses in the file of all instructions of its functions.
fn sites_of(file: &Path) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    let object = object::File::parse(bytes.as_slice()).unwrap();
    let text = object.section_by_name(".text").unwrap();
    let (start, data) = (text.address(), text.data().unwrap());
    let mut sites = BTreeSet::new();
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        let from = symbol.address().wrapping_sub(start) as usize;
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 || from >= data.len() {
            continue;
        }
        let to = data.len().min(from + symbol.size() as usize);
        let decoder = Decoder::with_ip(64, &data[from..to], symbol.address(), DecoderOptions::NONE);
        sites.extend(
            decoder
                .into_iter()
                .take_while(|instruction| !instruction.is_invalid())
                .map(|instruction| instruction.ip()),
        );
    }
    sites.into_iter().collect()
}

/// Ends the run at a place.
struct Until<'c> {
    place: Address,
    counter: &'c mut Counter,
}

impl HitHandler for Until<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        let outcome = self.counter.hit(hit, thread);
        Outcome {
            run_ended: hit == Hit::Tracepoint(self.place),
            ..outcome
        }
    }
}

struct Subject {
    program: Program,
    /// The file whose code gets the jumps, as the process sees it; `None` for the program itself.
    library: Option<&'static str>,
}

impl Subject {
    /// Where the file with the sites is loaded, once it is.
    fn bias(&self, process: &mut Process) -> u64 {
        loop {
            let modules = process.modules().unwrap();
            let found = match self.library {
                None => modules.first(),
                Some(name) => modules.iter().find(|module| module.path.ends_with(name)),
            };
            if let Some(module) = found {
                return module.load_bias;
            }
            assert_eq!(
                process.run(&mut Counter::default()).unwrap(),
                Event::LibrariesChanged
            );
        }
    }

    /// Runs to the checkpoint.
    fn run(&self, process: &mut Process, counter: &mut Counter) {
        let place = address(process, &self.program, "checkpoint");
        process.insert(place).unwrap();
        let mut until = Until { place, counter };
        loop {
            match process.run(&mut until).unwrap() {
                Event::LibrariesChanged => {}
                Event::RunEnded => break,
                event => panic!("{event:?} before the checkpoint"),
            }
        }
        process.remove(place).unwrap();
    }
}

fn setting(name: &str, standard: usize) -> usize {
    std::env::var(name).map_or(standard, |value| value.parse().unwrap())
}

/// What became of a batch of sites, each by its place in the batch.
struct Served {
    counts: Vec<u64>,
    ways: Vec<String>,
    /// The bytes at the sites before anything was put there.
    code: Vec<u8>,
}

/// Runs the program with jumps at these addresses of the file, and traps where there can be none; it must find what it
/// finds without.
fn by_jumps(subject: &Subject, sites: &[u64], expected: i64) -> Served {
    let mut process = subject.program.spawn();
    let bias = subject.bias(&mut process);
    let memory = process.share_memory_of((sites.len() * 8) as u64).unwrap();
    let sites: Vec<Address> = sites
        .iter()
        .map(|site| Address(site.wrapping_add(bias)))
        .collect();
    let code = bytes(&mut process, &sites);
    for (place, site) in sites.iter().enumerate().rev() {
        if process
            .insert_code(*site, counting(&memory, place))
            .is_err()
        {
            process.insert(*site).unwrap();
        }
    }
    let ways = sites
        .iter()
        .map(|site| format!("{:?}", process.mechanism(*site).unwrap()))
        .collect();
    let mut counter = Counter::default();
    subject.run(&mut process, &mut counter);
    for site in &sites {
        process.remove(*site).unwrap();
    }
    assert_eq!(bytes(&mut process, &sites), code);
    let id = process.id();
    // What the program itself has in its memory, not what we show of it.
    process.detach().unwrap();
    wait(id);
    let results = subject.program.results();
    assert_eq!(
        results.get("sum"),
        Some(&expected),
        "sites from {}",
        sites[0]
    );
    std::fs::remove_file(subject.program.results_path()).unwrap();
    let counts = sites.iter().enumerate();
    Served {
        counts: counts
            .map(|(place, site)| count(&memory, place) + counter.at(*site))
            .collect(),
        ways,
        code,
    }
}

/// Counts arrivals at some of the sites by breakpoints.
fn by_traps(subject: &Subject, sites: &[u64], places: &[usize], code: &[u8]) -> Vec<u64> {
    let mut process = subject.program.spawn();
    let bias = subject.bias(&mut process);
    let sites: Vec<Address> = sites
        .iter()
        .map(|site| Address(site.wrapping_add(bias)))
        .collect();
    assert_eq!(bytes(&mut process, &sites), code);
    for place in places {
        process.insert(sites[*place]).unwrap();
    }
    let mut counter = Counter::default();
    subject.run(&mut process, &mut counter);
    process.kill();
    places
        .iter()
        .map(|place| counter.at(sites[*place]))
        .collect()
}

fn torture(subject: &Subject, file: &Path, expected: i64) {
    let all = sites_of(file);
    let wanted = setting("TRACEWIRE_TORTURE_SITES", 600).min(all.len());
    let batch = setting("TRACEWIRE_TORTURE_BATCH", 600);
    // Stretches of code from all over the file.
    let stretch = 50;
    let stretches = all.len().div_ceil(stretch);
    let step = (stretches * stretch / wanted).max(1);
    let sites: Vec<u64> = all
        .chunks(stretch)
        .step_by(step)
        .flatten()
        .copied()
        .take(wanted)
        .collect();
    let mut ways: HashMap<String, usize> = HashMap::new();
    let mut hit = 0;
    for (number, sites) in sites.chunks(batch).enumerate() {
        let served = by_jumps(subject, sites, expected);
        for way in &served.ways {
            *ways.entry(way.clone()).or_default() += 1;
        }
        hit += served.counts.iter().filter(|count| **count > 0).count();
        if number % 10 == 9 {
            eprintln!("{}: {} sites", file.display(), (number + 1) * batch);
        }
        // Counted again by breakpoints, for a sample.
        if number % setting("TRACEWIRE_TORTURE_COUNTED", 1) != 0 {
            continue;
        }
        let sample: Vec<usize> = (0..sites.len()).step_by(7).collect();
        let trapped = by_traps(subject, sites, &sample, &served.code);
        let mut doubtful: Vec<(usize, u64)> = sample.iter().copied().zip(trapped).collect();
        doubtful.retain(|(place, trapped)| served.counts[*place] != *trapped);
        // What a scheduler or a random number decides differs from run to run by either means.
        for _ in 0..4 {
            if doubtful.is_empty() {
                break;
            }
            let places: Vec<usize> = doubtful.iter().map(|(place, _)| *place).collect();
            let trapped = by_traps(subject, sites, &places, &served.code);
            let again = by_jumps(subject, sites, expected).counts;
            let mut trapped = trapped.into_iter();
            doubtful.retain(|(place, before)| {
                let now = trapped.next().unwrap();
                let jumped = again[*place];
                now == *before && jumped == served.counts[*place]
            });
        }
        if let Some((place, trapped)) = doubtful.first().copied() {
            panic!(
                "{} by {}: {} and not {trapped}",
                Address(sites[place]),
                served.ways[place],
                served.counts[place],
            );
        }
    }
    eprintln!(
        "{}: {} sites of {}, {hit} of them executed, {ways:?}",
        file.display(),
        sites.len(),
        all.len()
    );
}

/// The code around the sites, without what depends on where it is.
fn bytes(process: &mut Process, sites: &[Address]) -> Vec<u8> {
    let mut pieces: Vec<_> = sites.iter().map(|site| piece(site.0, 15)).collect();
    process.read_memory(&mut pieces);
    pieces.into_iter().flat_map(|piece| piece.bytes).collect()
}

/// Waits for the end of a program that was detached.
fn wait(process: tracewire_model::ThreadId) {
    let id = process.0.cast_signed();
    // SAFETY: no status is wanted.
    while unsafe { libc::waitpid(id, std::ptr::null_mut(), libc::__WALL) } < 0 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
    }
}

/// What the program finds without us.
fn untouched(program: &Program) -> i64 {
    assert!(program.start().wait().unwrap().success());
    program.results()["sum"]
}

#[test]
fn jumps_all_over_libc() {
    let program = Program::build(LIBC, &["-O1"]);
    let expected = untouched(&program);
    let mut process = program.spawn();
    let subject = Subject {
        program,
        library: Some("libc.so.6"),
    };
    subject.bias(&mut process);
    let file: PathBuf = process
        .modules()
        .unwrap()
        .into_iter()
        .find(|module| module.path.ends_with("libc.so.6"))
        .unwrap()
        .path;
    process.kill();
    torture(&subject, &file, expected);
}

#[test]
fn jumps_all_over_a_cpp_program() {
    let program = Program::build_with("c++", "program.cc", CPP, &["-O2", "-std=c++20"]);
    let expected = untouched(&program);
    let file = program.path.clone();
    let subject = Subject {
        program,
        library: None,
    };
    torture(&subject, &file, expected);
}

#[test]
fn jumps_all_over_a_rust_program() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("program.rs");
    std::fs::write(&source, RUST).unwrap();
    let path = directory.path().join("program");
    let status = Command::new("rustc")
        .args(["--edition", "2024", "-O", "-g", "-o"])
        .arg(&path)
        .arg(&source)
        .status()
        .unwrap();
    assert!(status.success());
    let program = Program { directory, path };
    let expected = untouched(&program);
    let file = program.path.clone();
    let subject = Subject {
        program,
        library: None,
    };
    torture(&subject, &file, expected);
}
