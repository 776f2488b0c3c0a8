//! `qSupported`: what each side can do. GDB uses most features only when the stub announces them.

use crate::field::Field;
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// The request that opens a session.
    pub enum FeatureRequest {
        /// `qSupported`: what GDB can do.
        Supported {
            /// GDB's features; none from old versions.
            features: Option<FeatureList>,
        } = ["qSupported" (":" features)] => { match features {
            Some(features) => format!("offer {} features, ask for the stub's", features.0.len()),
            None => "ask for the stub's features".to_owned(),
        } }
    }
}

/// The reported support of a feature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FeatureValue {
    /// `name+`.
    Yes,
    /// `name-`.
    No,
    /// `name?`: unknown; GDB tries it.
    Maybe,
    /// `name=value`.
    Value(String),
}

/// One feature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// Its support.
    pub value: FeatureValue,
}

/// Features, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureList(pub Vec<Feature>);

impl FeatureList {
    /// Whether the feature is announced with `+`.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        self.get(name) == Some(&FeatureValue::Yes)
    }

    /// The reported support of the feature.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FeatureValue> {
        self.0
            .iter()
            .find(|feature| feature.name == name)
            .map(|feature| &feature.value)
    }

    /// The longest packet the stub takes, in bytes of payload (`PacketSize`, hexadecimal).
    #[must_use]
    pub fn packet_size(&self) -> Option<usize> {
        match self.get("PacketSize")? {
            FeatureValue::Value(digits) => usize::from_str_radix(digits, 16).ok(),
            _ => None,
        }
    }

    /// Announces a feature with `+`.
    pub fn announce(&mut self, name: &str) {
        self.0.push(Feature {
            name: name.to_owned(),
            value: FeatureValue::Yes,
        });
    }

    /// Announces a feature with a value.
    pub fn announce_value(&mut self, name: &str, value: String) {
        self.0.push(Feature {
            name: name.to_owned(),
            value: FeatureValue::Value(value),
        });
    }
}

impl Field for FeatureList {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut features = Vec::new();
        while !scanner.is_at_end() {
            let start = *scanner;
            let text = scanner.until(|byte| byte == b';');
            scanner.take(";");
            let text = std::str::from_utf8(text).map_err(|_| start.expected("text"))?;
            let (name, value) = if let Some((name, value)) = text.split_once('=') {
                (name, FeatureValue::Value(value.to_owned()))
            } else if let Some(name) = text.strip_suffix('+') {
                (name, FeatureValue::Yes)
            } else if let Some(name) = text.strip_suffix('-') {
                (name, FeatureValue::No)
            } else if let Some(name) = text.strip_suffix('?') {
                (name, FeatureValue::Maybe)
            } else {
                return Err(start.expected("a feature: name+, name-, name? or name=value"));
            };
            features.push(Feature {
                name: name.to_owned(),
                value,
            });
        }
        Ok(Self(features))
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, feature) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(b';');
            }
            out.extend_from_slice(feature.name.as_bytes());
            match &feature.value {
                FeatureValue::Yes => out.push(b'+'),
                FeatureValue::No => out.push(b'-'),
                FeatureValue::Maybe => out.push(b'?'),
                FeatureValue::Value(value) => {
                    out.push(b'=');
                    out.extend_from_slice(value.as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
impl crate::field::Sample for FeatureList {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::prelude::*;
        let value = prop_oneof![
            Just(FeatureValue::Yes),
            Just(FeatureValue::No),
            Just(FeatureValue::Maybe),
            "[a-z0-9,:]{0,10}".prop_map(FeatureValue::Value),
        ];
        let feature =
            ("[A-Za-z][A-Za-z:-]{0,10}", value).prop_map(|(name, value)| Feature { name, value });
        proptest::collection::vec(feature, 1..6)
            .prop_map(Self)
            .boxed()
    }
}
