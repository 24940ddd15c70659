//! Between YDB's messages and the words of coordination.

use shardine_coord::{
    Ask, ClaimLine, Config, Consistency, CountersMode, Description, Message, Opening, Refusal, SessionId,
};

use crate::envelope::{bad_request, issues, outcome};
use shardine_proto::ydb::coordination::session_request::{Request, SessionStart};
use shardine_proto::ydb::coordination::session_response::{
    AcquireSemaphorePending, AcquireSemaphoreResult, CreateSemaphoreResult, DeleteSemaphoreResult,
    DescribeSemaphoreChanged, DescribeSemaphoreResult, Failure, ReleaseSemaphoreResult, Response, SessionStarted,
    SessionStopped, UpdateSemaphoreResult,
};
use shardine_proto::ydb::coordination::{
    Config as ConfigMessage, ConsistencyMode, RateLimiterCountersMode, SemaphoreDescription, SemaphoreSession,
};

/// Settings as they were sent; a path among them, or a mode that is not known, is refused (coordination 14).
pub(crate) fn config_of(message: &ConfigMessage) -> Result<Config, Refusal> {
    if !message.path.is_empty() {
        return Err(bad_request("config.path must be empty"));
    }
    let consistency = |mode| match ConsistencyMode::try_from(mode) {
        Ok(ConsistencyMode::Unset) => Ok(Consistency::Unset),
        Ok(ConsistencyMode::Strict) => Ok(Consistency::Strict),
        Ok(ConsistencyMode::Relaxed) => Ok(Consistency::Relaxed),
        Err(_) => Err(bad_request("the consistency mode is not known")),
    };
    Ok(Config {
        self_check_period_ms: message.self_check_period_millis,
        session_grace_period_ms: message.session_grace_period_millis,
        read_consistency: consistency(message.read_consistency_mode)?,
        attach_consistency: consistency(message.attach_consistency_mode)?,
        rate_limiter_counters: match RateLimiterCountersMode::try_from(message.rate_limiter_counters_mode) {
            Ok(RateLimiterCountersMode::Unset) => CountersMode::Unset,
            Ok(RateLimiterCountersMode::Aggregated) => CountersMode::Aggregated,
            Ok(RateLimiterCountersMode::Detailed) => CountersMode::Detailed,
            Err(_) => return Err(bad_request("the counters mode is not known")),
        },
    })
}

/// The path stays empty (coordination 18).
pub(crate) fn message_of(config: &Config) -> ConfigMessage {
    let mode = |consistency| match consistency {
        Consistency::Unset => ConsistencyMode::Unset as i32,
        Consistency::Strict => ConsistencyMode::Strict as i32,
        Consistency::Relaxed => ConsistencyMode::Relaxed as i32,
    };
    ConfigMessage {
        path: String::new(),
        self_check_period_millis: config.self_check_period_ms,
        session_grace_period_millis: config.session_grace_period_ms,
        read_consistency_mode: mode(config.read_consistency),
        attach_consistency_mode: mode(config.attach_consistency),
        rate_limiter_counters_mode: match config.rate_limiter_counters {
            CountersMode::Unset => RateLimiterCountersMode::Unset as i32,
            CountersMode::Aggregated => RateLimiterCountersMode::Aggregated as i32,
            CountersMode::Detailed => RateLimiterCountersMode::Detailed as i32,
        },
    }
}

pub(crate) fn opening_of(start: SessionStart) -> Opening {
    Opening {
        path: start.path,
        session: SessionId(start.session_id),
        timeout_ms: start.timeout_millis,
        description: start.description,
        seq_no: start.seq_no,
        protection_key: start.protection_key,
    }
}

/// What a client may ask on a stream that is open. Pings and pongs are the stream's own affair.
pub(crate) fn ask_of(request: Request) -> Result<Ask, Refusal> {
    Ok(match request {
        Request::SessionStop(_) => Ask::Stop,
        Request::AcquireSemaphore(ask) => Ask::Acquire {
            req: ask.req_id,
            name: ask.name,
            timeout_ms: ask.timeout_millis,
            count: ask.count,
            data: ask.data,
            ephemeral: ask.ephemeral,
        },
        Request::ReleaseSemaphore(ask) => Ask::Release { req: ask.req_id, name: ask.name },
        Request::DescribeSemaphore(ask) => Ask::Describe {
            req: ask.req_id,
            name: ask.name,
            owners: ask.include_owners,
            waiters: ask.include_waiters,
            watch_data: ask.watch_data,
            watch_owners: ask.watch_owners,
        },
        Request::CreateSemaphore(ask) => {
            Ask::Create { req: ask.req_id, name: ask.name, limit: ask.limit, data: ask.data }
        }
        Request::UpdateSemaphore(ask) => Ask::Update { req: ask.req_id, name: ask.name, data: ask.data },
        Request::DeleteSemaphore(ask) => Ask::Delete { req: ask.req_id, name: ask.name, force: ask.force },
        Request::SessionStart(_) => return Err(bad_request("the session was started already")),
        Request::Ping(_) | Request::Pong(_) => return Err(bad_request("a ping is no request")),
        Request::Unsupported5(_)
        | Request::Unsupported6(_)
        | Request::Unsupported13(_)
        | Request::Unsupported14(_)
        | Request::Unsupported15(_) => return Err(bad_request("the request is not supported")),
    })
}

pub(crate) fn failure(refusal: &Refusal) -> Response {
    Response::Failure(Failure { status: refusal.status.code(), issues: issues(refusal) })
}

pub(crate) fn response_of(message: Message) -> Response {
    match message {
        Message::Started { session, timeout_ms } => {
            Response::SessionStarted(SessionStarted { session_id: session.0, timeout_millis: timeout_ms })
        }
        Message::Stopped { session } => Response::SessionStopped(SessionStopped { session_id: session.0 }),
        Message::Failure(refusal) => failure(&refusal),
        Message::Created { req, result } => {
            let (status, issues) = outcome(&result);
            Response::CreateSemaphoreResult(CreateSemaphoreResult { req_id: req, status, issues })
        }
        Message::Updated { req, result } => {
            let (status, issues) = outcome(&result);
            Response::UpdateSemaphoreResult(UpdateSemaphoreResult { req_id: req, status, issues })
        }
        Message::Deleted { req, result } => {
            let (status, issues) = outcome(&result);
            Response::DeleteSemaphoreResult(DeleteSemaphoreResult { req_id: req, status, issues })
        }
        Message::Pending { req } => Response::AcquireSemaphorePending(AcquireSemaphorePending { req_id: req }),
        Message::Acquired { req, result } => {
            let (status, issues) = outcome(&result);
            let acquired = result.unwrap_or(false);
            Response::AcquireSemaphoreResult(AcquireSemaphoreResult { req_id: req, status, issues, acquired })
        }
        Message::Released { req, result } => {
            let (status, issues) = outcome(&result);
            let released = result.unwrap_or(false);
            Response::ReleaseSemaphoreResult(ReleaseSemaphoreResult { req_id: req, status, issues, released })
        }
        Message::Described { req, result, watch_added } => {
            let (status, issues) = outcome(&result);
            let semaphore_description = result.ok().map(|found| described(*found));
            Response::DescribeSemaphoreResult(DescribeSemaphoreResult {
                req_id: req,
                status,
                issues,
                semaphore_description,
                watch_added,
            })
        }
        Message::Changed { req, data, owners } => Response::DescribeSemaphoreChanged(DescribeSemaphoreChanged {
            req_id: req,
            data_changed: data,
            owners_changed: owners,
        }),
    }
}

fn described(found: Description) -> SemaphoreDescription {
    let line = |claim: ClaimLine| SemaphoreSession {
        session_id: claim.session.0,
        timeout_millis: claim.timeout_ms,
        count: claim.count,
        data: claim.data,
        order_id: claim.order.0,
    };
    SemaphoreDescription {
        name: found.name,
        data: found.data,
        limit: found.limit,
        ephemeral: found.ephemeral,
        owners: found.owners.into_iter().map(line).collect(),
        waiters: found.waiters.into_iter().map(line).collect(),
        count: found.count,
    }
}
