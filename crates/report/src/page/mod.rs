//! The page: one file with its style, its script and its data, which loads nothing.

use std::io::{self, Write};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::data::Data;

pub(crate) mod execution;
pub(crate) mod run;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The page's content security policy: it loads nothing, for any data.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The parts of a page, each with a heading.
#[derive(Default)]
pub(crate) struct Sections(Vec<Section>);

struct Section {
    /// Its name in links.
    id: &'static str,
    heading: &'static str,
    content: Markup,
}

impl Sections {
    /// Adds a part, if there is something in it.
    pub(crate) fn add(
        &mut self,
        id: &'static str,
        heading: &'static str,
        content: impl Into<Option<Markup>>,
    ) {
        self.0.extend(content.into().map(|content| Section {
            id,
            heading,
            content,
        }));
    }
}

/// Writes a page, with the block of hits where there is one.
pub(crate) fn write(
    out: &mut impl Write,
    title: &str,
    summary: &Markup,
    Sections(sections): &Sections,
    data: Option<&Data>,
) -> io::Result<()> {
    let head = html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "tracewire " (env!("CARGO_PKG_VERSION")) };
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            title { (title) " – Tracewire report" }
            style { (PreEscaped(STYLE)) }
        }
        (PreEscaped("<body>"))
        a.skip href="#main" { "Skip to the report" }
        header {
            p.kind { "Tracewire report" }
            h1 { (title) }
            (summary)
            nav aria-label="Sections" {
                ul { @for section in sections { li { a href={ "#" (section.id) } { (section.heading) } } } }
            }
        }
        (PreEscaped("<main id=\"main\">"))
        @for section in sections {
            section id=(section.id) aria-labelledby={ (section.id) "-heading" } {
                h2 id={ (section.id) "-heading" } { (section.heading) }
                (section.content)
            }
        }
        (PreEscaped("</main>"))
        footer { p { "Made by " code { "tracewire report" } " " (env!("CARGO_PKG_VERSION")) ". The page loads nothing." } }
    };
    out.write_all(head.into_string().as_bytes())?;
    if let Some(data) = data {
        out.write_all(b"<script type=\"application/json\" id=\"data\">")?;
        data.write(&mut *out)?;
        write!(out, "</script><script>{SCRIPT}</script>")?;
    }
    out.write_all(b"</body></html>\n")
}

/// Numbers in short, each with its name.
pub(crate) fn tiles(tiles: &[(&str, String)]) -> Markup {
    html! {
        dl.tiles { @for (name, value) in tiles { div { dt { (name) } dd { (value) } } } }
    }
}

/// A table that scrolls separately if it is wider than the page.
pub(crate) fn scrolled(label: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// Names and values, one under the other.
pub(crate) fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}
