//! The grammar of packets: one line a packet, from which its parser, its printer and its explanation are made.

/// Declares an enum of packets.
///
/// Each variant has its grammar after `=`: the letters at the packet's start, then fields and letters in order, then in parentheses
/// optional parts at the end. After `=>` is the explanation, either a format string or a block that returns a `String`. A variant
/// with only letters is exactly these. The first variant that matches wins, so a longer prefix is before its shorter one.
macro_rules! packets {
    (
        $(#[$enum_meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$meta:meta])*
                $variant:ident $( { $( $(#[$field_meta:meta])* $field:ident : $type:ty ),* $(,)? } )?
                    = [ $prefix:literal $( $item:tt )* ] => $explain:tt
            )*
        }
    ) => {
        $(#[$enum_meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $name {
            $(
                $(#[$meta])*
                $variant $( { $( $(#[$field_meta])* $field: $type ),* } )?
            ),*
        }

        impl $name {
            /// The letters that each packet starts with.
            pub const PREFIXES: &'static [&'static str] = &[ $( $prefix ),* ];

            /// None when the text starts with the letters of none of these packets.
            pub(crate) fn scan(text: &[u8]) -> Option<Result<Self, $crate::PacketError>> {
                use tracewire_model::text::{Expected, Scanner};
                $(
                    let whole = $crate::packets::packets!(@whole $( $item )*);
                    if let Some(start) = Scanner::after(text, $prefix, whole) {
                        let read = |start: Scanner<'_>| -> Result<Self, Expected> {
                            #[allow(unused_mut)]
                            let mut scanner = start;
                            $( $crate::packets::packets!(@scan scanner $item); )*
                            scanner.end("the end of the packet")?;
                            Ok(Self::$variant { $( $( $field ),* )? })
                        };
                        return Some(read(start).map_err(|expected| {
                            $crate::PacketError::new(expected, $prefix, text)
                        }));
                    }
                )*
                None
            }

            pub(crate) fn print(&self, out: &mut Vec<u8>) {
                match self {
                    $(
                        Self::$variant { $( $( $field ),* )? } => {
                            out.extend_from_slice($prefix.as_bytes());
                            $( $crate::packets::packets!(@print out $item); )*
                        }
                    )*
                }
            }

            /// The letters that the packet starts with.
            #[must_use]
            pub const fn prefix(&self) -> &'static str {
                match self {
                    $( Self::$variant { .. } => $prefix, )*
                }
            }

            pub(crate) fn explain(&self) -> String {
                match self {
                    $(
                        #[allow(unused_variables)]
                        Self::$variant { $( $( $field ),* )? } => {
                            $crate::packets::packets!(@explain $explain)
                        }
                    )*
                }
            }
        }

        #[cfg(test)]
        impl $crate::field::Sample for $name {
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::{Just, Strategy, Union};
                Union::new(vec![
                    $(
                        (Just(()), $( $( <$type as $crate::field::Sample>::strategy() ),* )?)
                            .prop_map(|((), $( $( $field ),* )?)| {
                                Self::$variant { $( $( $field ),* )? }
                            })
                            .boxed()
                    ),*
                ])
                .boxed()
            }
        }
    };

    (@whole) => { true };
    (@whole $( $item:tt )+) => { false };

    (@scan $scanner:ident $literal:literal) => { $scanner.literal($literal)? };
    (@scan $scanner:ident ( $literal:literal $field:ident )) => {
        let $field = if $scanner.take($literal) {
            Some($crate::field::Field::scan(&mut $scanner)?)
        } else {
            None
        };
    };
    (@scan $scanner:ident ( $field:ident )) => {
        let $field = if $scanner.is_at_end() {
            None
        } else {
            Some($crate::field::Field::scan(&mut $scanner)?)
        };
    };
    (@scan $scanner:ident $field:ident) => {
        let $field = $crate::field::Field::scan(&mut $scanner)?;
    };

    (@print $out:ident $literal:literal) => { $out.extend_from_slice($literal.as_bytes()) };
    (@print $out:ident ( $literal:literal $field:ident )) => {
        if let Some($field) = $field {
            $out.extend_from_slice($literal.as_bytes());
            $crate::field::Field::print($field, $out);
        }
    };
    (@print $out:ident ( $field:ident )) => {
        if let Some($field) = $field {
            $crate::field::Field::print($field, $out);
        }
    };
    (@print $out:ident $field:ident) => { $crate::field::Field::print($field, $out) };

    (@explain $literal:literal) => { format!($literal) };
    (@explain $block:block) => { $block };
}

pub(crate) use packets;
