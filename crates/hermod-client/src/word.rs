//! Fields that hold one of a few words.
//!
//! A newer server may know more of them than this client. Such a word is kept as it came, so that
//! what was read can be shown and sent back.

/// An enum of words, with room for those that are not known here.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$item:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$item])* $variant,)+
            /// One that this client does not know, by the server's name for it.
            Other(String),
        }

        impl $type {
            /// The API's name for it.
            pub fn as_str(&self) -> &str {
                match self {
                    $($type::$variant => $word,)+
                    $type::Other(text) => text,
                }
            }
        }

        impl From<String> for $type {
            fn from(text: String) -> $type {
                match text.as_str() {
                    $($word => $type::$variant,)+
                    _ => $type::Other(text),
                }
            }
        }

        impl From<$type> for String {
            fn from(word: $type) -> String {
                match word {
                    $type::Other(text) => text,
                    known => known.as_str().to_owned(),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;
