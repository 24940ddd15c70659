//! Panics of code that is not the kit's: a service's `decode`, a provider, a store. They fail what was asked and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Runs what somebody else wrote; a panic is an error with its words. What it has left half done is its own: the kit looks
/// at nothing of it afterwards.
pub(crate) async fn caught<T>(act: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(act).catch_unwind().await.map_err(|panic| words(panic.as_ref()))
}

/// The same for what does not wait.
pub(crate) fn caught_now<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(|panic| words(panic.as_ref()))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kit A-52: words that were put together are a `String`, others a `&str`, and there may be none at all.
    #[tokio::test]
    async fn a_panic_is_told_in_its_own_words() {
        let (number, told) = (7, |words: &str| Err::<(), _>(format!("panicked: {words}")));
        let waits = async || panic!("shard {number} is part of the test");

        assert_eq!(caught(waits()).await, told("shard 7 is part of the test"));
        assert_eq!(caught_now(|| panic!("hit {number} is part of the test")), told("hit 7 is part of the test"));
        assert_eq!(caught_now(|| panic!("this panic is part of the test")), told("this panic is part of the test"));
        assert_eq!(caught_now(|| std::panic::panic_any(number)), told("without words"));
    }
}
