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
