use tendot_store::{Store, StoreError};

/// The number of the last line of a store's log, found in few steps from one that is known to be there.
pub(crate) async fn last_change<S: Store>(store: &S, known: u64) -> Result<u64, StoreError> {
    let (mut low, mut high, mut step) = (known, known, 1);
    while !store.changes(high, 1).await?.is_empty() {
        (low, high) = (high, high.saturating_add(step));
        step = step.saturating_mul(2);
    }
    // After `low` there is something, after `high` there is nothing.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if store.changes(middle, 1).await?.is_empty() { high = middle } else { low = middle }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use tendot_store::{Change, Edit, Memory};

    use super::*;

    #[tokio::test]
    async fn found() {
        let store = Memory::new();
        for number in 0..40 {
            for known in [0, number / 2, number] {
                assert_eq!(last_change(&store, known).await.unwrap(), number);
            }
            let edits = vec![Edit::Home { prefix: format!("10.{number}").into() }];
            store.commit(Change { by: "test".into(), at: 0, edits }).await.unwrap();
        }
    }
}
