//! Names in SQL: case is ignored, as in DuckDB, for names with and without quotes.
//!
//! The engine distinguishes case. So each word of a query that is a known name in another case is replaced by that name before the
//! query is parsed. Keywords have any case, so they may be replaced too.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::{DataType, Fields};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::QueryError;

/// How deep types are looked at for names. They are no deeper.
const DEEPEST: usize = 64;

/// The most words of a query. Each may make its tree a level deeper, which the engine walks by recursion.
const MOST_WORDS: usize = 5000;

/// The words of a query.
pub(crate) fn words(sql: &str) -> Result<Vec<TokenWithSpan>, QueryError> {
    let words = Tokenizer::new(&DuckDbDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| QueryError::Syntax {
            message: error.message,
            sql: sql.to_owned(),
            line: error.location.line,
            column: error.location.column,
        })?;
    let is_counted = |word: &&TokenWithSpan| {
        use Token::{Comma, Number, SingleQuotedString, Whitespace};
        !matches!(
            word.token,
            Comma | Number(..) | SingleQuotedString(_) | Whitespace(_)
        )
    };
    match words.iter().filter(is_counted).count() {
        0..=MOST_WORDS => Ok(with_addresses(sql, words)),
        found => Err(QueryError::Long {
            found,
            most: MOST_WORDS,
        }),
    }
}

/// Makes numbers of what is written as addresses are, `0x80001000`: with the same bits, as columns of addresses have them. The
/// tokenizer takes them for bytes, as `X'80'`.
fn with_addresses(sql: &str, words: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut all = Vec::with_capacity(words.len());
    for word in words {
        let number = match &word.token {
            Token::HexStringLiteral(digits) if is_address(sql, &word) => {
                u64::from_str_radix(digits, 16).ok()
            }
            _ => None,
        };
        let Some(number) = number.map(u64::cast_signed) else {
            all.push(word);
            continue;
        };
        let digits = Token::Number(number.unsigned_abs().to_string(), false);
        let tokens = match number {
            0.. => vec![digits],
            _ => vec![Token::LParen, Token::Minus, digits, Token::RParen],
        };
        all.extend(tokens.into_iter().map(|token| TokenWithSpan {
            token,
            span: word.span,
        }));
    }
    all
}

/// Whether a word begins with a zero in the text.
fn is_address(sql: &str, word: &TokenWithSpan) -> bool {
    let at = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    let start = word.span.start;
    let first = at(start.line)
        .and_then(|line| sql.lines().nth(line))
        .and_then(|line| line.chars().nth(at(start.column)?));
    first == Some('0')
}

/// The known names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: HashSet<String>,
    by_small_letters: HashMap<String, String>,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str) {
        if self.exact.insert(name.to_owned()) {
            let first = self.by_small_letters.entry(name.to_lowercase());
            first.or_insert_with(|| name.to_owned());
        }
    }

    /// Adds the names of columns, and those of their parts.
    pub(crate) fn add_fields(&mut self, fields: &Fields) {
        self.add_parts(fields, DEEPEST);
    }

    fn add_parts(&mut self, fields: &Fields, depth: usize) {
        for field in fields {
            self.add(field.name());
            let mut inner = field.data_type();
            while let DataType::List(element) = inner {
                inner = element.data_type();
            }
            if let (DataType::Struct(parts), Some(depth)) = (inner, depth.checked_sub(1)) {
                self.add_parts(parts, depth);
            }
        }
    }

    /// Gives words the spelling of the names that they match. Other words without quotes become lower-case.
    ///
    /// `values` is a keyword too. Where no parenthesis follows, it is the table.
    pub(crate) fn spell(&self, words: &mut [TokenWithSpan]) {
        let mut next = Token::EOF;
        for word in words.iter_mut().rev() {
            let follows = next.clone();
            if !matches!(word.token, Token::Whitespace(_)) {
                next = word.token.clone();
            }
            let Token::Word(word) = &mut word.token else {
                continue;
            };
            if word.keyword == Keyword::VALUES && follows != Token::LParen {
                word.keyword = Keyword::NoKeyword;
                word.quote_style = Some('"');
                word.value = word.value.to_lowercase();
            }
            if self.exact.contains(&word.value) {
                continue;
            }
            let small = word.value.to_lowercase();
            match self.by_small_letters.get(&small) {
                Some(name) => word.value.clone_from(name),
                None if word.quote_style.is_none() => word.value = small,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Fields};

    use super::{Names, words};

    #[test]
    fn addresses_are_numbers_and_bytes_stay() {
        let read = |sql: &str| {
            let all = words(sql).expect("words");
            all.iter()
                .map(|word| word.token.to_string())
                .collect::<String>()
        };
        assert_eq!(
            read(
                "select *\n from x where pc = 0x80001000 or b = X'80' or pc > 0xffffffffffffffff or y = 0x123456789abcdef01"
            ),
            "select *\n from x where pc = 2147487744 or b = X'80' or pc > (-1) or y = X'123456789abcdef01'"
        );
        assert_eq!(read("0x8000000000000000"), "(-9223372036854775808)");
    }

    #[test]
    fn words_are_spelt_as_the_names_that_they_are() {
        let mut names = Names::default();
        let part = Field::new("firstItem", DataType::Int64, true);
        let inner = DataType::Struct(Fields::from(vec![part]));
        let list = DataType::List(Field::new("element", inner, true).into());
        names.add_fields(&Fields::from(vec![
            Field::new("maxItems", DataType::Int64, true),
            Field::new("größe", DataType::Int64, true),
            Field::new("id", DataType::Int64, true),
            Field::new("ID", DataType::Int64, true),
            Field::new("all", list, true),
        ]));
        let sql = r#"SELECT MAXITEMS, "MaxItems", GRÖSSE, "GRÖßE", id, ID, Id, FIRSTitem, "Other", 'MAXITEMS' AS N -- ID"#;
        let spelt = |sql: &str| {
            let mut all = words(sql).expect("words");
            names.spell(&mut all);
            all.iter()
                .map(|word| word.token.to_string())
                .collect::<String>()
        };
        assert_eq!(
            spelt("select Values.frame from VALUES -- of\n join (values (1)) x"),
            "select \"values\".frame from \"values\" -- of\n join (values (1)) x"
        );
        assert_eq!(
            spelt(sql),
            r#"select maxItems, "maxItems", grösse, "größe", id, ID, id, firstItem, "Other", 'MAXITEMS' as n -- ID"#
        );
    }
}
