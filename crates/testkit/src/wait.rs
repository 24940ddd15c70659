//! Waiting for something to become true, with a limit and a name for the message. The only place that pauses.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Pause between two questions. Short enough not to be seen in a measurement, long enough not to burn a core.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks `probe` until it answers with a value. An error ends the wait at once: it means that the event cannot come any more.
pub fn wait_for<T>(event: &str, within: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {within:?} for {event} in vain");
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_value_that_the_event_brought() {
        let mut questions = 0;

        let value = wait_for("the third question", Duration::from_secs(5), || {
            questions += 1;
            Ok((questions == 3).then_some(questions))
        });

        assert_eq!(value.unwrap(), 3);
    }

    #[test]
    fn a_wait_in_vain_names_what_it_waited_for() {
        let outcome = wait_for::<()>("a miracle", Duration::from_millis(5), || Ok(None));

        assert!(outcome.unwrap_err().to_string().contains("a miracle"));
    }
}
