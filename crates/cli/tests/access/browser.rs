//! A page in a real browser, which gets nothing from the port of a server. `cargo xtask torture browser` installs the browser and runs
//! this; the suite does not, because a browser is a large package.

use std::io::{Read, Write};
use std::process::Command;

use super::{Listening, TRACEWIRE, hex, packet};

/// A page that posts packets to a port in every way that a page has.
const PAGE: &str = r#"<html><body><pre id=said></pre><script>
const body = BODY, there = "http://SERVER/", say = text => document.getElementById("said").textContent += text + "\n";
const type = { "Content-Type": "text/plain" };
(async () => {
  for (const mode of ["no-cors", "cors"]) {
    try {
      const reply = await fetch(there, { method: "POST", mode, headers: type, body });
      say("fetch " + mode + " got " + reply.type + await reply.text());
    } catch (error) { say("fetch " + mode + " failed"); }
  }
  const request = new XMLHttpRequest();
  request.open("POST", there);
  request.onloadend = () => say(request.status ? "request got " + request.responseText : "request failed");
  request.send(body);
  navigator.sendBeacon(there, body);
  const socket = new WebSocket("ws://SERVER/");
  socket.onerror = () => say("socket failed");
  socket.onopen = () => say("socket got open");
  const frame = document.createElement("iframe"), form = document.createElement("form");
  frame.name = "frame";
  Object.assign(form, { method: "POST", enctype: "text/plain", action: there, target: "frame" });
  const text = document.createElement("textarea");
  Object.assign(text, { name: "a", value: body });
  form.append(text);
  document.body.append(frame, form);
  form.submit();
})();
</script></body></html>"#;

#[test]
fn a_page_in_a_browser_gets_nothing_from_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let run = format!(
        "vRun;{};{}",
        hex("/usr/bin/touch"),
        hex(made.to_str().unwrap())
    );
    let body = ["!", &run, "vCont;c"].map(packet).concat();
    let server =
        Listening::start(Command::new(TRACEWIRE).args(["gdbserver", "--multi", "127.0.0.1:0"]));
    let page = PAGE
        .replace("BODY", &format!("{body:?}"))
        .replace("SERVER", &server.at);
    let pages = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let address = pages.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in pages.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 0x4000]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg("--dump-dom")
        .arg(format!("http://{address}/"))
        .output()
        .expect("chromium is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = said.split("</pre>").next().unwrap_or_default();
    println!("{said}");
    for words in [
        "fetch no-cors failed",
        "fetch cors failed",
        "request failed",
        "socket failed",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains(" got "), "{said}");
    assert!(!made.exists());
    assert!(server.connect().ask("qSupported").contains("PacketSize="));
}
