//! The commands of the door in one table: name, number of words, kind, and where their keys stand.
//!
//! `COMMAND`, arity errors and dispatch all read this table. What a command does is told elsewhere.

use crate::command::functions;
use crate::frame::Line;

/// How a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads the row named by its first word.
    Read,
    /// Reads every row that it names.
    ReadMany,
    /// Changes the row named by its first word.
    Change,
    /// Changes every row that it names, each by itself.
    ChangeMany,
    /// Asks the engine for something that is not one row.
    Call,
    /// Looks at rows of one partition and changes them, at one moment.
    Atomic,
    /// Runs a script.
    Program,
    /// Answered by the connection itself.
    Own,
    /// Transactions, which must not be queued in one.
    Control,
}

/// First key, last key (negative counts from the end), step; zeros if there is none. As in Redis's `COMMAND INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) step: i64,
}

const NO_KEY: Keys = Keys { first: 0, last: 0, step: 0 };
const ONE_KEY: Keys = Keys { first: 1, last: 1, step: 1 };
const ALL_KEYS: Keys = Keys { first: 1, last: -1, step: 1 };
const TWO_KEYS: Keys = Keys { first: 1, last: 2, step: 1 };
const FROM_SECOND: Keys = Keys { first: 2, last: -1, step: 1 };
const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };

macro_rules! verbs {
    ($($variant:ident $name:literal $arity:literal $kind:ident $keys:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Verb {
            $($variant,)*
        }

        #[allow(non_upper_case_globals)] // Named after the variants, so that the macro can match on them.
        mod folded {
            $(pub(super) const $variant: u128 = super::fold_const($name);)*
        }

        impl Verb {
            pub(crate) const ALL: &'static [Verb] = &[$(Verb::$variant,)*];

            /// Finds a command whatever the case of its name.
            #[inline]
            pub(crate) fn find(name: &[u8]) -> Option<Verb> {
                match fold(name)? {
                    $(folded::$variant => Some(Verb::$variant),)*
                    _ => None,
                }
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Verb::$variant => $name,)* }
            }

            /// Words of a whole command; a negative number is a minimum.
            #[inline]
            pub(crate) fn arity(self) -> i64 {
                match self { $(Verb::$variant => $arity,)* }
            }

            #[inline]
            pub(crate) fn kind(self) -> Kind {
                match self { $(Verb::$variant => Kind::$kind,)* }
            }

            pub(crate) fn keys(self) -> Keys {
                match self { $(Verb::$variant => $keys,)* }
            }
        }
    };
}

verbs! {
    Hget "HGET" 3 Read ONE_KEY;
    Hset "HSET" -4 Change ONE_KEY;
    Get "GET" 2 Read ONE_KEY;
    Set "SET" -3 Change ONE_KEY;

    Hmget "HMGET" -3 Read ONE_KEY;
    Hgetall "HGETALL" 2 Read ONE_KEY;
    Hexists "HEXISTS" 3 Read ONE_KEY;
    Hlen "HLEN" 2 Read ONE_KEY;
    Hkeys "HKEYS" 2 Read ONE_KEY;
    Hvals "HVALS" 2 Read ONE_KEY;
    Hstrlen "HSTRLEN" 3 Read ONE_KEY;
    Hrandfield "HRANDFIELD" -2 Read ONE_KEY;
    Hscan "HSCAN" -3 Read ONE_KEY;
    Hmset "HMSET" -4 Change ONE_KEY;
    Hsetnx "HSETNX" 4 Change ONE_KEY;
    Hdel "HDEL" -3 Change ONE_KEY;
    Hincrby "HINCRBY" 4 Change ONE_KEY;
    Hincrbyfloat "HINCRBYFLOAT" 4 Change ONE_KEY;

    Strlen "STRLEN" 2 Read ONE_KEY;
    Getrange "GETRANGE" 4 Read ONE_KEY;
    Substr "SUBSTR" 4 Read ONE_KEY;
    Getbit "GETBIT" 3 Read ONE_KEY;
    Setbit "SETBIT" 4 Change ONE_KEY;
    Bitcount "BITCOUNT" -2 Read ONE_KEY;
    Bitpos "BITPOS" -3 Read ONE_KEY;
    Mget "MGET" -2 ReadMany ALL_KEYS;
    Mset "MSET" -3 ChangeMany PAIRS;
    Msetnx "MSETNX" -3 ChangeMany PAIRS;
    Setnx "SETNX" 3 Change ONE_KEY;
    Setex "SETEX" 4 Change ONE_KEY;
    Psetex "PSETEX" 4 Change ONE_KEY;
    Getset "GETSET" 3 Change ONE_KEY;
    Getdel "GETDEL" 2 Change ONE_KEY;
    Getex "GETEX" -2 Change ONE_KEY;
    Incr "INCR" 2 Change ONE_KEY;
    Decr "DECR" 2 Change ONE_KEY;
    Incrby "INCRBY" 3 Change ONE_KEY;
    Decrby "DECRBY" 3 Change ONE_KEY;
    Incrbyfloat "INCRBYFLOAT" 3 Change ONE_KEY;
    Append "APPEND" 3 Change ONE_KEY;
    Setrange "SETRANGE" 4 Change ONE_KEY;

    Del "DEL" -2 ChangeMany ALL_KEYS;
    Unlink "UNLINK" -2 ChangeMany ALL_KEYS;
    Exists "EXISTS" -2 ReadMany ALL_KEYS;
    Touch "TOUCH" -2 ReadMany ALL_KEYS;
    Type "TYPE" 2 Read ONE_KEY;
    Ttl "TTL" 2 Read ONE_KEY;
    Pttl "PTTL" 2 Read ONE_KEY;
    Expiretime "EXPIRETIME" 2 Read ONE_KEY;
    Pexpiretime "PEXPIRETIME" 2 Read ONE_KEY;
    Object "OBJECT" -2 Read SECOND;
    Memory "MEMORY" -2 Read SECOND;
    Expire "EXPIRE" -3 Change ONE_KEY;
    Pexpire "PEXPIRE" -3 Change ONE_KEY;
    Expireat "EXPIREAT" -3 Change ONE_KEY;
    Pexpireat "PEXPIREAT" -3 Change ONE_KEY;
    Persist "PERSIST" 2 Change ONE_KEY;

    Rename "RENAME" 3 Atomic TWO_KEYS;
    Renamenx "RENAMENX" 3 Atomic TWO_KEYS;
    Copy "COPY" -3 Atomic TWO_KEYS;
    Bitop "BITOP" -4 Atomic FROM_SECOND;
    Bitfield "BITFIELD" -2 Atomic ONE_KEY;
    BitfieldRo "BITFIELD_RO" -2 Atomic ONE_KEY;
    Lcs "LCS" -3 Atomic TWO_KEYS;
    Dump "DUMP" 2 Atomic ONE_KEY;
    Restore "RESTORE" -4 Atomic ONE_KEY;

    Scan "SCAN" -2 Call NO_KEY;
    Keys "KEYS" 2 Call NO_KEY;
    Dbsize "DBSIZE" 1 Call NO_KEY;
    Randomkey "RANDOMKEY" 1 Call NO_KEY;
    Flushdb "FLUSHDB" -1 Call NO_KEY;
    Flushall "FLUSHALL" -1 Call NO_KEY;
    Info "INFO" -1 Call NO_KEY;

    Multi "MULTI" 1 Control NO_KEY;
    Exec "EXEC" 1 Control NO_KEY;
    Discard "DISCARD" 1 Control NO_KEY;
    Watch "WATCH" -2 Control ALL_KEYS;
    Unwatch "UNWATCH" 1 Own NO_KEY;

    Eval "EVAL" -3 Program NO_KEY;
    Evalsha "EVALSHA" -3 Program NO_KEY;
    EvalRo "EVAL_RO" -3 Program NO_KEY;
    EvalshaRo "EVALSHA_RO" -3 Program NO_KEY;
    Script "SCRIPT" -2 Own NO_KEY;
    Fcall "FCALL" -3 Program NO_KEY;
    FcallRo "FCALL_RO" -3 Program NO_KEY;
    Function "FUNCTION" -2 Call NO_KEY;

    Ping "PING" -1 Own NO_KEY;
    Echo "ECHO" 2 Own NO_KEY;
    Hello "HELLO" -1 Own NO_KEY;
    Auth "AUTH" -2 Own NO_KEY;
    Select "SELECT" 2 Own NO_KEY;
    Quit "QUIT" -1 Control NO_KEY;
    Reset "RESET" 1 Control NO_KEY;
    Client "CLIENT" -2 Own NO_KEY;
    Command "COMMAND" -1 Own NO_KEY;
    Config "CONFIG" -2 Own NO_KEY;
    Time "TIME" 1 Own NO_KEY;
    Wait "WAIT" 3 Own NO_KEY;
    Slowlog "SLOWLOG" -2 Own NO_KEY;
    Latency "LATENCY" -2 Own NO_KEY;
    Role "ROLE" 1 Own NO_KEY;
    Cluster "CLUSTER" -2 Own NO_KEY;
    Readonly "READONLY" 1 Own NO_KEY;
    Readwrite "READWRITE" 1 Own NO_KEY;

    RecGet "REC.GET" -2 Read ONE_KEY;
    RecSet "REC.SET" -4 Change ONE_KEY;
    RecInsert "REC.INSERT" -2 Change ONE_KEY;
    RecReplace "REC.REPLACE" -2 Change ONE_KEY;
    RecUpdate "REC.UPDATE" -4 Change ONE_KEY;
    RecCas "REC.CAS" -5 Change ONE_KEY;
    RecDel "REC.DEL" -2 Change ONE_KEY;
    RecKick "REC.KICK" -2 Call ONE_KEY;
    RecFlush "REC.FLUSH" -1 Call NO_KEY;
    RecScan "REC.SCAN" -2 Call NO_KEY;
    RecExplain "REC.EXPLAIN" 2 Call ONE_KEY;
    RecCall "REC.CALL" -1 Own NO_KEY;
}

impl Verb {
    #[inline]
    pub(crate) fn takes(self, words: usize) -> bool {
        let (arity, words) = (self.arity(), words as i64);
        if arity < 0 { words >= -arity } else { words == arity }
    }

    /// How this very command is carried out: to write nothing into a string is to ask for its length.
    #[inline]
    pub(crate) fn kind_of(self, line: Line<'_>) -> Kind {
        match self {
            Verb::Setrange if line.word(3).is_empty() => Kind::Read,
            // Those of their subcommands that name no key.
            Verb::Object | Verb::Memory if line.len() < 3 => Kind::Own,
            Verb::Function if !functions::is_change(line) => Kind::Own,
            _ => self.kind(),
        }
    }

    /// Where the key of a command on one row stands.
    #[inline]
    pub(crate) fn key_place(self) -> usize {
        if matches!(self, Verb::Object | Verb::Memory) { 2 } else { 1 }
    }

    /// Whether the command is about the connection alone, whatever tables there are.
    #[inline]
    pub(crate) fn names_nothing(self) -> bool {
        self.kind() == Kind::Own || matches!(self, Verb::Quit | Verb::Reset)
    }

    /// Whether the answer is how long a record has to live.
    #[inline]
    pub(crate) fn tells_time_left(self) -> bool {
        matches!(self, Verb::Ttl | Verb::Pttl)
    }

    /// Of those that look at rows of one partition: whether it leaves them as they are.
    pub(crate) fn only_looks(self) -> bool {
        matches!(self, Verb::Lcs | Verb::BitfieldRo | Verb::Dump)
    }

    /// Whether it runs something that changes nothing.
    pub(crate) fn runs_to_look(self) -> bool {
        matches!(self, Verb::EvalRo | Verb::EvalshaRo | Verb::FcallRo)
    }

    /// Whether it tells of what keys there are.
    pub(crate) fn reads_keyspace(self) -> bool {
        matches!(self, Verb::Scan | Verb::Keys | Verb::Dbsize | Verb::Randomkey | Verb::RecScan)
    }

    /// Whether it asks for more than one partition has.
    pub(crate) fn is_about_many_partitions(self) -> bool {
        self.kind() == Kind::Call
    }

    /// What a client may say before it has said who it is.
    #[inline]
    pub(crate) fn is_open_to_strangers(self) -> bool {
        matches!(self, Verb::Auth | Verb::Hello | Verb::Quit | Verb::Reset)
    }
}

/// Names as one number, in upper case, with the length in the last byte, so that finding one is a search among integers.
#[inline]
fn fold(name: &[u8]) -> Option<u128> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0u8; 16];
    for (slot, byte) in bytes.iter_mut().zip(name) {
        *slot = byte.to_ascii_uppercase();
    }
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

const NAME_BYTES_MAX: usize = 15;

const fn fold_const(name: &str) -> u128 {
    let (name, mut bytes, mut index) = (name.as_bytes(), [0u8; 16], 0);
    while index < name.len() {
        bytes[index] = name[index];
        index += 1;
    }
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    u128::from_le_bytes(bytes)
}

/// Why a command of Redis is not here, where there is more to say than that it is about other things than records.
pub(crate) fn why_not_here(name: &[u8]) -> Option<&'static str> {
    let begins = |text: &str| name.len() >= text.len() && name[..text.len()].eq_ignore_ascii_case(text.as_bytes());
    let is = |text: &str| name.eq_ignore_ascii_case(text.as_bytes());
    let fields_expire = ["HEXPIRE", "HPEXPIRE", "HTTL", "HPTTL", "HPERSIST", "HGETEX", "HSETEX"];
    if fields_expire.iter().any(|text| begins(text)) {
        Some("a record expires as a whole (EXPIRE), its fields have no time of their own")
    } else if is("SORT") || is("SORT_RO") {
        Some("it sorts lists and sets; rows of a table with a sort key come sorted (REC.SCAN)")
    } else if is("DEBUG") {
        Some("nobody may stop or damage a node through this door")
    } else if ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUBLISH", "SPUBLISH", "PUBSUB"]
        .iter()
        .any(|it| is(it))
    {
        Some("there are no channels")
    } else if is("SAVE") || is("BGSAVE") || is("BGREWRITEAOF") || is("LASTSAVE") {
        Some("what was answered is on disk already")
    } else if is("ACL") {
        Some("there is one user, and its password is given when the server starts")
    } else {
        None
    }
}

/// Commands that Redis has and Shardine does not, so that the error can say so instead of "unknown".
pub(crate) fn is_known_to_redis(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    std::str::from_utf8(&name).is_ok_and(|name| ELSEWHERE.binary_search(&name).is_ok())
}

#[rustfmt::skip]
const ELSEWHERE: &[&str] = &[
    "ACL", "ASKING", "BGREWRITEAOF", "BGSAVE", "BLMOVE",
    "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "DEBUG",
    "FAILOVER", "GEOADD", "GEODIST",
    "GEOHASH", "GEOPOS", "GEORADIUS", "GEORADIUSBYMEMBER", "GEOSEARCH", "GEOSEARCHSTORE", "HEXPIRE",
    "HEXPIREAT", "HEXPIRETIME", "HGETDEL", "HGETEX", "HPERSIST", "HPEXPIRE", "HPEXPIREAT", "HPEXPIRETIME", "HPTTL",
    "HSETEX", "HTTL", "LASTSAVE", "LINDEX", "LINSERT", "LLEN", "LMOVE", "LMPOP", "LOLWUT", "LPOP",
    "LPOS", "LPUSH", "LPUSHX", "LRANGE", "LREM", "LSET", "LTRIM", "MIGRATE", "MODULE", "MONITOR", "MOVE",
    "PFADD", "PFCOUNT", "PFDEBUG", "PFMERGE", "PSUBSCRIBE", "PSYNC", "PUBLISH", "PUBSUB",
    "PUNSUBSCRIBE", "REPLCONF", "REPLICAOF", "RPOP",
    "RPOPLPUSH", "RPUSH", "RPUSHX", "SADD", "SAVE", "SCARD", "SDIFF", "SDIFFSTORE", "SHUTDOWN",
    "SINTER", "SINTERCARD", "SINTERSTORE", "SISMEMBER", "SLAVEOF", "SMEMBERS", "SMISMEMBER", "SMOVE",
    "SORT", "SORT_RO", "SPOP", "SPUBLISH", "SRANDMEMBER", "SREM", "SSCAN", "SSUBSCRIBE", "SUBSCRIBE", "SUNION",
    "SUNIONSTORE", "SUNSUBSCRIBE", "SWAPDB", "SYNC", "UNSUBSCRIBE", "WAITAOF", "XACK", "XADD", "XAUTOCLAIM",
    "XCLAIM", "XDEL", "XGROUP", "XINFO", "XLEN", "XPENDING", "XRANGE", "XREAD", "XREADGROUP", "XREVRANGE", "XSETID",
    "XTRIM", "ZADD", "ZCARD", "ZCOUNT", "ZDIFF", "ZDIFFSTORE", "ZINCRBY", "ZINTER", "ZINTERCARD", "ZINTERSTORE",
    "ZLEXCOUNT", "ZMPOP", "ZMSCORE", "ZPOPMAX", "ZPOPMIN", "ZRANDMEMBER", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE",
    "ZRANGESTORE", "ZRANK", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREVRANGE",
    "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE", "ZREVRANK", "ZSCAN", "ZSCORE", "ZUNION", "ZUNIONSTORE",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for &verb in Verb::ALL {
            assert_eq!(Verb::find(verb.name().as_bytes()), Some(verb));
            assert_eq!(Verb::find(verb.name().to_ascii_lowercase().as_bytes()), Some(verb));
        }
        for name in [&b""[..], b"HGE", b"HGETX", b"HGET\0", b"a name longer than sixteen bytes"] {
            assert_eq!(Verb::find(name), None);
        }
    }

    #[test]
    fn what_redis_has_and_we_lack_is_in_order_and_apart() {
        assert!(ELSEWHERE.is_sorted());
        assert!(ELSEWHERE.iter().all(|name| Verb::find(name.as_bytes()).is_none()));
        assert!(is_known_to_redis(b"lpush") && !is_known_to_redis(b"foo"));
    }

    /// reliability S9: this list is the attack surface, so it changes only on purpose.
    #[test]
    fn nothing_dangerous_is_offered() {
        for name in ["MODULE", "DEBUG", "SLAVEOF", "REPLICAOF", "MIGRATE", "SHUTDOWN", "MONITOR"] {
            assert_eq!(Verb::find(name.as_bytes()), None, "{name}");
        }
        assert_eq!(Verb::ALL.len(), 116);
    }
}
