//! Pages in a headless Chromium: they open without an error and quickly, their table filters, sorts and turns, in light and in dark.
//! `cargo xtask torture browser` installs the browser and runs this; the suite does not, because a browser is a large package.
//!
//! With `TRACEWIRE_AXE` naming `axe.min.js` (of `npm pack axe-core`), that looks at the pages too.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Shop, thumb};

/// Narrow, wide.
const WIDTHS: [u32; 2] = [390, 1280];

/// The output of a script in the page, and the browser's messages about the page.
struct Opened {
    said: Value,
    console: String,
    ready_ms: u64,
}

/// Opens a page with a script at its end. The script's last word is `say(OBJECT)`.
fn open(shop: &Shop, page: &str, script: &str, options: &[&str]) -> Opened {
    let folder = shop.0.path();
    let (start, end) = page.rsplit_once("</body>").expect("a page");
    let said = "const say = what => { const e = document.createElement('pre'); e.id = 'said'; \
                e.textContent = JSON.stringify(what); document.body.append(e); }; \
                const wait = ms => new Promise(done => setTimeout(done, ms)); \
                const get = id => document.getElementById(id);";
    let page = format!(
        "{start}<script>{said} (async () => {{ {script} }})().catch(error => say({{ error: String(error) }}))</script></body>{end}"
    );
    let path = folder.join("opened.html");
    fs::write(&path, page).unwrap();
    let chromium = |more: &[&str]| {
        let output = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                "--dump-dom",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.join("profile").display()
            ))
            .args(more)
            .arg(format!("file://{}", path.display()))
            .output()
            .expect("chromium is installed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    // Time that is real until the page is ready, then time that passes at once.
    let (dom, _) = chromium(options);
    let ready = dom
        .split_once("data-ready=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let mut with_time = options.to_vec();
    with_time.push("--virtual-time-budget=20000");
    let (dom, errors) = chromium(&with_time);
    let said = dom
        .rsplit_once("<pre id=\"said\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map(|(said, _)| {
            said.replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&")
        })
        .unwrap_or_else(|| panic!("nothing is said: {errors}"));
    Opened {
        said: serde_json::from_str(&said).expect("JSON"),
        console: errors.lines().filter(|line| line.contains("CONSOLE")).fold(
            String::new(),
            |mut all, line| {
                let _ = writeln!(all, "{line}");
                all
            },
        ),
        ready_ms: ready.map_or(0, |(ready, _)| ready.parse().unwrap()),
    }
}

/// Filters, sorts and turns pages, and returns the table's contents after each.
const USE: &str = r##"
const found = {};
const shown = () => [...document.querySelectorAll("#hits-table tbody tr")];
const texts = at => shown().map(row => row.children[at].textContent);
const filter = async text => { get("filter").value = text; get("filter").dispatchEvent(new Event("input")); await wait(400); };
found.first = get("status").textContent;
found.rows = shown().length;
get("next").click();
found.second = get("status").textContent;
get("last").click();
found.last = get("status").textContent;
await filter("order.id=7");
found.one = get("status").textContent;
await filter("order.price>=3 order.name=tea order.kind~voucher order.items~,");
found.parts = get("status").textContent;
await filter("line=21");
found.named = get("status").textContent;
await filter("declined-is-nowhere");
found.none = get("status").textContent;
await filter("voucher token>18364758544493064722 order.items.size()<=1");
found.both = get("status").textContent;
await filter("tea");
found.word = get("status").textContent;
await filter("");
get("tracepoint").value = "2";
get("tracepoint").dispatchEvent(new Event("change"));
found.headings = [...document.querySelectorAll("#hits-table thead th")].map(one => one.textContent);
const sort = name => [...document.querySelectorAll("#hits-table thead button")].find(one => one.textContent === name).click();
sort("token"); sort("token");
found.sorted = texts(found.headings.indexOf("token")).slice(0, 3);
found.missing = [...document.querySelectorAll("#hits-table .missing")].length;
found.title = document.title;
found.images = document.images.length;
found.background = getComputedStyle(document.body).backgroundColor;
found.wider = document.documentElement.scrollWidth > document.documentElement.clientWidth;
say(found);
"##;

#[test]
fn a_page_of_100_000_hits_opens_filters_sorts_and_turns() {
    let shop = Shop::build();
    // The program has a number that is called token.
    shop.record(&["--no-default-redactions"], "run.tf", &["33400"]);
    let page = shop.report(&["run.tf", "--rows", "1000000"]);
    let title = "run.tf – Tracewire report";
    let mut backgrounds = Vec::new();
    for (scheme, width) in [(1, WIDTHS[1]), (0, WIDTHS[0])] {
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let width = format!("--window-size={width},900");
        let opened = open(&shop, &page, USE, &[&scheme, &width]);
        let said = &opened.said;
        println!(
            "100200 hits, {} MB: ready after {} ms, {width}",
            page.len() / 1_000_000,
            opened.ready_ms
        );
        assert_eq!(opened.console, "");
        assert!(opened.ready_ms > 0, "{said}");
        let plain = |name: &str| {
            said[name]
                .as_str()
                .unwrap_or_default()
                .replace('\u{202f}', "")
        };
        assert_eq!(plain("first"), "Hits 1 to 50 of 100200.", "{said}");
        assert_eq!(said["rows"], 50);
        assert_eq!(plain("second"), "Hits 51 to 100 of 100200.");
        assert_eq!(plain("last"), "Hits 100151 to 100200 of 100200.");
        assert_eq!(
            plain("one"),
            "Hits 1 to 2 of 2, of 100200 in all.",
            "{said}"
        );
        let parts = "Hits 1 to 50 of 1112, of 100200 in all.";
        assert_eq!(plain("parts"), parts, "{said}");
        assert_eq!(
            plain("named"),
            "Hits 1 to 1 of 1, of 100200 in all.",
            "{said}"
        );
        assert_eq!(plain("none"), "No hit fits.");
        assert_eq!(
            plain("both"),
            "Hits 1 to 50 of 4453, of 100200 in all.",
            "{said}"
        );
        assert!(plain("word").ends_with("of 100200 in all."), "{said}");
        assert!(
            said["headings"]
                .as_array()
                .unwrap()
                .contains(&"order.kind".into()),
            "{said}"
        );
        let largest = 0xfedc_ba98_7654_3210_u64 + 33_399;
        assert_eq!(said["sorted"][0], largest.to_string(), "{said}");
        assert!(said["missing"].as_u64().unwrap() > 0, "{said}");
        assert_eq!(
            (&said["title"], &said["images"]),
            (&title.into(), &0.into()),
            "{said}"
        );
        assert_eq!(said["wider"], false, "{said}");
        backgrounds.push(said["background"].clone());
    }
    assert_ne!(backgrounds[0], backgrounds[1], "light and dark");
}

#[test]
fn accessibility_rules_find_nothing() {
    let Ok(axe) = std::env::var("TRACEWIRE_AXE") else {
        println!("TRACEWIRE_AXE names no axe.min.js: not looked at");
        return;
    };
    let axe = fs::read_to_string(axe)
        .unwrap()
        .replace("</script", "<\\/script");
    let script = format!(
        "{axe}; const results = await axe.run(document); \
         say(results.violations.map(one => [one.id, one.nodes.map(node => node.html)]))"
    );
    let shop = Shop::build();
    shop.record(&[], "run.tf", &["60"]);
    let run = shop.report(&["run.tf"]);
    let [trace, elf] = thumb(shop.0.path());
    let execution = shop.report(&[trace.to_str().unwrap(), "--elf", elf.to_str().unwrap()]);
    for page in [run, execution] {
        for (scheme, width) in [
            (0, WIDTHS[0]),
            (1, WIDTHS[0]),
            (0, WIDTHS[1]),
            (1, WIDTHS[1]),
        ] {
            let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
            let width = format!("--window-size={width},900");
            let opened = open(&shop, &page, &script, &[&scheme, &width]);
            assert_eq!(opened.said, serde_json::json!([]), "{scheme} {width}");
        }
    }
}
