//! The target description, whose parts may be in several documents.

use tracewire_arch::LayoutError;

use crate::error::RemoteError;

/// How many documents are read at most.
const MOST_DOCUMENTS: usize = 64;
/// How much text they may have together, in bytes.
const MOST_TEXT: usize = 1 << 20;

/// The description `target.xml` with all that it includes, in one document; `read` gets a document by its name.
pub(crate) fn whole(
    read: &mut dyn FnMut(&str) -> Result<Option<String>, RemoteError>,
) -> Result<Option<String>, RemoteError> {
    let Some(text) = read("target.xml")? else {
        return Ok(None);
    };
    let mut left = MOST_DOCUMENTS;
    let mut whole = String::new();
    let mut open = vec![(text, 0)];
    while let Some((text, at)) = open.last_mut() {
        let rest = text.get(*at..).unwrap_or_default();
        let Some((start, end, name)) = next_include(rest) else {
            whole.push_str(rest);
            open.pop();
            continue;
        };
        whole.push_str(rest.get(..start).unwrap_or_default());
        *at += end;
        let name = name.to_owned();
        left -= 1;
        if left == 0 || whole.len() > MOST_TEXT {
            return Err(LayoutError::TooLong(whole.len()).into());
        }
        let Some(included) = read(&name)? else {
            return Err(LayoutError::Include(name).into());
        };
        open.push((body(&included).to_owned(), 0));
    }
    Ok(Some(whole))
}

/// The next element that includes a document: where it starts, where it ends, the name.
fn next_include(text: &str) -> Option<(usize, usize, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("<xi:include")?;
        let element = text.get(start..)?;
        let length = element.find('>')? + 1;
        let tag = element.get(..length)?;
        let name = attribute(tag, "href");
        // An element that is not empty has an end tag.
        let end = if tag.ends_with("/>") {
            start + length
        } else {
            const END: &str = "</xi:include>";
            start + element.find(END).map_or(length, |at| at + END.len())
        };
        match name {
            Some(name) => return Some((start, end, name)),
            None => from = end,
        }
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let after = tag.get(tag.find(name)? + name.len()..)?.trim_start();
    let value = after.strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value.get(1..)?.split(quote).next()
}

/// A document without its declaration and its document type.
fn body(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let end = if rest.starts_with("<?") {
            rest.find("?>").map(|at| at + 2)
        } else if rest.starts_with("<!--") {
            rest.find("-->").map(|at| at + 3)
        } else if rest.starts_with("<!DOCTYPE") {
            // With declarations of its own in brackets, or without.
            let plain = rest.find('>').map(|at| at + 1);
            match (rest.find('['), plain) {
                (Some(bracket), Some(plain)) if bracket < plain => rest.find("]>").map(|at| at + 2),
                (_, plain) => plain,
            }
        } else {
            return rest;
        };
        match end.and_then(|end| rest.get(end..)) {
            Some(after) => rest = after.trim_start(),
            None => return "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_documents_are_put_in_place() {
        let mut read = |name: &str| {
            Ok(match name {
                "target.xml" => Some(
                    r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target><architecture>arm</architecture><xi:include href="core.xml"/><xi:include href='vfp.xml'></xi:include></target>"#
                        .to_owned(),
                ),
                "core.xml" => Some(
                    "<?xml version=\"1.0\"?>\n<!-- core -->\n<!DOCTYPE feature SYSTEM \"gdb-target.dtd\" [ <!ELEMENT a ANY> ]>\n<feature name=\"a\"/>"
                        .to_owned(),
                ),
                "vfp.xml" => Some("<feature name=\"b\"/>".to_owned()),
                _ => None,
            })
        };
        let whole = whole(&mut read).expect("a description").expect("some");
        assert!(
            whole.ends_with(
                r#"<target><architecture>arm</architecture><feature name="a"/><feature name="b"/></target>"#
            ),
            "{whole}"
        );
    }

    #[test]
    fn a_description_that_includes_itself_is_refused() {
        let mut read = |_: &str| {
            Ok(Some(
                "<target><xi:include href='target.xml'/></target>".to_owned(),
            ))
        };
        assert!(whole(&mut read).is_err());
        let mut missing =
            |name: &str| {
                Ok((name == "target.xml")
                    .then(|| "<target><xi:include href='x'/></target>".to_owned()))
            };
        assert!(whole(&mut missing).is_err());
        assert!(matches!(whole(&mut |_| Ok(None)), Ok(None)));
    }
}
