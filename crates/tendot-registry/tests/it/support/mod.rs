//! Stores of every kind, and a macro that runs tests over several of them.

pub(crate) mod stores;
mod test_registry;

pub(crate) use stores::{StoreKind, copy_dir, open_postgres};
pub(crate) use test_registry::TestRegistry;

/// Makes a test of each case for each store: `postgres::case` calls `case(StoreKind::Postgres)`.
macro_rules! store_tests {
    ($($store:ident),+ => $cases:tt) => {
        $( $crate::support::store_tests!(@module $store $cases); )+
    };
    (@module $store:ident { $($case:ident),+ $(,)? }) => {
        mod $store {
            $(
                #[test]
                fn $case() {
                    super::$case($crate::support::store_tests!(@kind $store));
                }
            )+
        }
    };
    (@kind memory) => { $crate::support::StoreKind::Memory };
    (@kind embedded) => { $crate::support::StoreKind::Embedded };
    (@kind postgres) => { $crate::support::StoreKind::Postgres };
}

pub(crate) use store_tests;
