//! A question before something is gone for good.

use std::io::{IsTerminal, stdin};

use crate::complaint::Complaint;

/// Has whoever sits at the terminal type a name again. `refused` is what is said of it if that does not happen.
pub fn confirm(question: &str, name: &str, refused: &str) -> Result<(), Complaint> {
    let refused = |cause: &str| Complaint::misused(refused, cause, "--yes");
    if !stdin().is_terminal() {
        return Err(refused("nobody is there to confirm it"));
    }
    eprint!("{question} type {name:?}: ");
    let mut typed = String::new();
    stdin().read_line(&mut typed).map_err(Complaint::from_io)?;
    if typed.trim() == name { Ok(()) } else { Err(refused("it was not confirmed")) }
}
