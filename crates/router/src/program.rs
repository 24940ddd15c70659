//! Commands that are executed at one moment by whoever leads their rows, and whose next step may depend on what the last one found:
//! scripts, transactions with scripts in them, and commands that look at several rows.

use shardine_model::{RowKeyBuf, Version};

/// Invariant: all rows that it touches share the partition of `home`. One that touches another is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it is executed.
    pub home: RowKeyBuf,
    /// It names no row beforehand: the first one that it touches may send it elsewhere.
    pub wanders: bool,
    /// The reply is in the newer form of the protocol.
    pub resp3: bool,
    /// Its replies stand in an array.
    pub is_transaction: bool,
    /// It changes nothing.
    pub reads_only: bool,
    /// Versions that must hold when it begins, else it is not executed and its reply is null.
    pub watched: Vec<(RowKeyBuf, Version)>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command as its words.
    Command {
        words: Vec<Box<[u8]>>,
    },
    Script {
        text: Box<[u8]>,
        keys: Vec<Box<[u8]>>,
        args: Vec<Box<[u8]>>,
        reads_only: bool,
    },
    /// A function of a library, whose text goes along: it is executed as whoever sent it has it.
    Function {
        library: Box<[u8]>,
        name: Box<[u8]>,
        keys: Vec<Box<[u8]>>,
        args: Vec<Box<[u8]>>,
        reads_only: bool,
    },
    /// What is known to be answered in this place.
    Said {
        reply: Box<[u8]>,
    },
}

impl Program {
    /// What it takes of memory, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let all = |words: &[Box<[u8]>]| words.iter().map(|word| word.len() + size_of::<Box<[u8]>>()).sum::<usize>();
        let steps = self.steps.iter().map(|step| match step {
            Step::Command { words } => all(words),
            Step::Script { text, keys, args, .. } => text.len() + all(keys) + all(args),
            Step::Function { library, name, keys, args, .. } => library.len() + name.len() + all(keys) + all(args),
            Step::Said { reply } => reply.len(),
        });
        size_of::<Self>() + self.home.key.len() + steps.sum::<usize>()
    }
}
