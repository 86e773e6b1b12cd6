//! Enums with stable codes, and sets of their values.

/// Defines an enum whose values have stable codes in kebab case, and the type of a set of them.
macro_rules! flag_set {
    (
        $(#[$flag_meta:meta])* enum $flag:ident;
        $(#[$set_meta:meta])* struct $set:ident($bits:ty);
        $($(#[$doc:meta])* $name:ident = $code:literal,)*
    ) => {
        $(#[$flag_meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum $flag {
            $($(#[$doc])* $name,)*
        }

        impl $flag {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// Stable code in kebab case.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }

        $(#[$set_meta])*
        #[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
        pub struct $set($bits);

        const _: () = assert!(
            $flag::ALL.len() <= <$bits>::BITS as usize,
            "more flags than bits of the integer type"
        );

        impl $set {
            /// Whether the set is empty.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether the set contains `flag`.
            pub const fn contains(self, flag: $flag) -> bool {
                self.0 & (1 << flag as $bits) != 0
            }

            /// Iterates over the set, in the order of the variants.
            pub fn iter(self) -> impl Iterator<Item = $flag> {
                $flag::ALL.iter().copied().filter(move |&flag| self.contains(flag))
            }

            /// The set and `flag`.
            pub(crate) const fn with(self, flag: $flag) -> Self {
                Self(self.0 | 1 << flag as $bits)
            }

            /// Adds `flag` if `condition` is true; never removes it.
            pub(crate) fn insert_if(&mut self, flag: $flag, condition: bool) {
                if condition {
                    *self = self.with(flag);
                }
            }
        }

        impl core::fmt::Debug for $set {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_set().entries(self.iter()).finish()
            }
        }
    };
}

pub(crate) use flag_set;

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use crate::{Adjustment, Adjustments, ExtractionFlag, ExtractionFlags};

    #[test]
    fn sets() {
        let mut set = Adjustments::default();
        assert!(set.is_empty() && !set.contains(Adjustment::WhitespaceTrimmed));
        set.insert_if(Adjustment::Repaired, true);
        set.insert_if(Adjustment::LabelRemoved, true);
        set.insert_if(Adjustment::Repaired, false);
        assert_eq!(set.iter().map(Adjustment::code).collect::<Vec<_>>(), ["label-removed", "repaired"]);
        assert_eq!(format!("{set:?}"), "{LabelRemoved, Repaired}");

        let mut flags = ExtractionFlags::default();
        assert!(flags.is_empty());
        for flag in ExtractionFlag::ALL {
            assert!(!flags.contains(*flag));
            flags.insert_if(*flag, true);
            assert!(flags.contains(*flag));
        }
        assert!(flags.iter().eq(ExtractionFlag::ALL.iter().copied()));
    }
}
