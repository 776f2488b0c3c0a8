//! A library of queries.
//!
//! Each is a file in `queries`. Its first line describes the answer; each line after that is a parameter, `-- NAME (KIND): WHAT` or
//! `-- NAME (KIND, VALUE): WHAT`, of the kind `number` or `text`.

use std::collections::BTreeMap;

use datafusion::common::ScalarValue;

use crate::error::QueryError;

macro_rules! queries {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../queries/", $name, ".sql")))),*]
    };
}

const ALL: [(&str, &str); 6] =
    queries!("changes" "difference" "hottest" "invariants" "latency" "slowest");

/// A query of the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedQuery {
    /// Its name.
    pub name: &'static str,
    /// A description of the answer.
    pub about: &'static str,
    /// Its parameters, required or optional.
    pub parameters: Vec<Parameter>,
    /// The query.
    pub sql: &'static str,
}

/// A parameter of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name: `$NAME` in the query.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its value where none is given; none where one must be.
    pub default: Option<&'static str>,
    is_number: bool,
}

/// All queries of the library, by their names.
#[must_use]
pub fn named_queries() -> Vec<NamedQuery> {
    ALL.iter()
        .filter_map(|(name, sql)| NamedQuery::read(name, sql))
        .collect()
}

impl NamedQuery {
    /// The query of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<Self, QueryError> {
        let mut all = named_queries().into_iter();
        all.find(|query| query.name == name)
            .ok_or_else(|| QueryError::Named(name.to_owned()))
    }

    fn read(name: &'static str, sql: &'static str) -> Option<Self> {
        let mut lines = sql.lines().map_while(|line| line.strip_prefix("-- "));
        let about = lines.next()?;
        let parameters = lines.map(Parameter::read).collect::<Option<_>>()?;
        Some(Self {
            name,
            about,
            parameters,
            sql,
        })
    }

    /// The values of all parameters, from what was given for some.
    ///
    /// # Errors
    /// When one is given that the query does not have, one is missing, or one is no number and should be.
    pub fn values(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, ScalarValue>, QueryError> {
        let is_known = |name: &str| self.parameters.iter().any(|known| known.name == name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            return Err(QueryError::Parameter {
                query: self.name.to_owned(),
                name: name.clone(),
                all: self
                    .parameters
                    .iter()
                    .map(|one| one.name.to_owned())
                    .collect(),
            });
        }
        let mut values = BTreeMap::new();
        for parameter in &self.parameters {
            let given = given.get(parameter.name).map(String::as_str);
            let text = given
                .or(parameter.default)
                .ok_or_else(|| QueryError::Value {
                    query: self.name.to_owned(),
                    name: parameter.name.to_owned(),
                })?;
            let value = match parameter.is_number {
                false => ScalarValue::Utf8(Some(text.to_owned())),
                true => {
                    let number = text.parse().map_err(|_| QueryError::Number {
                        name: parameter.name.to_owned(),
                        value: text.to_owned(),
                    })?;
                    ScalarValue::Int64(Some(number))
                }
            };
            values.insert(parameter.name.to_owned(), value);
        }
        Ok(values)
    }
}

impl Parameter {
    fn read(line: &'static str) -> Option<Self> {
        let (name, rest) = line.split_once(" (")?;
        let (kind, about) = rest.split_once("): ")?;
        let (kind, default) = match kind.split_once(", ") {
            Some((kind, default)) => (kind, Some(default)),
            None => (kind, None),
        };
        let is_number = match kind {
            "number" => true,
            "text" => false,
            _ => return None,
        };
        Some(Self {
            name,
            about,
            default,
            is_number,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::common::ScalarValue;

    use super::{ALL, NamedQuery, named_queries};
    use crate::error::QueryError;

    fn given(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn all_queries_say_what_they_are() {
        let all = named_queries();
        assert_eq!(all.len(), ALL.len());
        for query in all {
            for parameter in &query.parameters {
                assert!(
                    query.sql.contains(&format!("${}", parameter.name)),
                    "{}",
                    query.name
                );
            }
            assert_eq!(
                query.sql.matches("\n-- ").count(),
                query.parameters.len(),
                "{}",
                query.name
            );
        }
    }

    #[test]
    fn parameters_have_values() {
        let hottest = NamedQuery::find("hottest").expect("a query");
        let values = hottest.values(&given("expression", "key")).expect("values");
        assert_eq!(values["limit"], ScalarValue::Int64(Some(20)));
        assert_eq!(values["expression"], ScalarValue::from("key"));
        assert!(matches!(
            hottest.values(&BTreeMap::new()),
            Err(QueryError::Value { .. })
        ));
        assert!(matches!(
            hottest.values(&given("key", "1")),
            Err(QueryError::Parameter { .. })
        ));
        let slowest = NamedQuery::find("slowest").expect("a query");
        assert!(matches!(
            slowest.values(&given("limit", "x")),
            Err(QueryError::Number { .. })
        ));
        assert!(matches!(NamedQuery::find("x"), Err(QueryError::Named(_))));
    }
}
