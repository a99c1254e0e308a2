//! Enums whose variants are one word each, the same in Rust, JSON and SQL.

/// An enum with its words: `as_str`, `FromStr` with the field's name in its error, and serde.
macro_rules! word_enum {
    ($(#[$doc:meta])* $type:ident, $field:literal, { $($(#[$item:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type { $($(#[$item])* $variant),+ }

        impl $type {
            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::id::Invalid;

            fn from_str(text: &str) -> Result<$type, $crate::id::Invalid> {
                match text {
                    $($word => Ok($type::$variant),)+
                    _ => Err($crate::id::Invalid::new($field, concat!("must be one of:", $(" ", $word),+))),
                }
            }
        }
    };
}

pub(crate) use word_enum;
