//! Macro for open sets of named code points.

/// Defines named code points of the protocol. Unknown codes are preserved.
macro_rules! code_points {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl $type {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// All named code points.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Name in Handle.Net.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
}

pub(super) use code_points;
