//! How much a script may take, each number with its reason.

/// What one run may take. A run that is stopped has done nothing, and can be begun again with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of Lua's machine, and as many for what library functions do at length.
    pub steps: u64,
    /// Bytes beside those that the sandbox itself takes.
    pub memory_bytes: usize,
}

impl Limits {
    /// On a lane, where others wait meanwhile: about half a millisecond. What takes more begins again beside it.
    pub const LANE: Self = Self { steps: 20_000, memory_bytes: 1 << 20 };

    /// To load a library, which registers functions and does nothing else.
    pub const LOADING: Self = Self { steps: 1_000_000, memory_bytes: 16 << 20 };

    /// Beside the lanes: some seconds. What takes more is a mistake, and whoever sent it would have given up.
    pub const BESIDE: Self = Self { steps: 200_000_000, memory_bytes: 64 << 20 };
}

/// Steps between two looks at how many there were.
pub(crate) const STEPS_BETWEEN_LOOKS: u32 = 500;

/// Scripts that one sandbox keeps compiled. Who has more than these has made them by hand, and compiles again.
pub(crate) const COMPILED_MAX: usize = 1_000;

/// Commands that one script may say. Each is evaluated when it is said, and again when it is applied.
pub(crate) const CALLS_MAX: usize = 100_000;

/// Bytes that the changes of one script may take: one entry of the log should hold them.
pub(crate) const WRITES_BYTES_MAX: usize = 16 << 20;

/// Tables within tables that a reply may have, and values within values that `cjson` and `cmsgpack` read and write.
pub(crate) const DEPTH_MAX: usize = 1_000;

/// Bytes of a pattern, and open matches within each other: each takes room on the stack.
pub(crate) const PATTERN_BYTES_MAX: usize = 10_000;
pub(crate) const PATTERN_DEPTH_MAX: usize = 2_000;

/// Steps that a run has taken.
pub type Spent = u64;
