//! The one mapping of error codes to gRPC, and how a failure travels in a status.

use prost::Message;
use prost_types::Any;
use shardine_model::ErrorCode;
use shardine_proto::{CODE_METADATA, v1};
use shardine_service::Failure;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::convert;

const REFUSAL_TYPE: &str = "type.googleapis.com/shardine.v1.Refusal";

/// Bytes of the record that a refusal shows. It travels in headers, and those end at 16 KiB with many clients.
const SHOWN_RECORD_BYTES_MAX: usize = 4 << 10;

/// The standard envelope of error details (`google.rpc.Status`), of which nothing else is needed.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// Standard clients retry `UNAVAILABLE` by themselves, so it stands only for what certainly was not done.
#[must_use]
pub fn code_of(code: ErrorCode) -> Code {
    match code {
        ErrorCode::NotFound => Code::NotFound,
        ErrorCode::Exists => Code::AlreadyExists,
        ErrorCode::VersionMismatch | ErrorCode::CasMismatch => Code::Aborted,
        ErrorCode::Overflow => Code::OutOfRange,
        ErrorCode::BadRequest | ErrorCode::UnknownTable | ErrorCode::UnknownField | ErrorCode::WrongType => {
            Code::InvalidArgument
        }
        ErrorCode::StaleRoute
        | ErrorCode::NotLeader
        | ErrorCode::NoLeader
        | ErrorCode::BackendUnavailable
        | ErrorCode::Busy
        | ErrorCode::Suspended => Code::Unavailable,
        ErrorCode::SqlRefused => Code::FailedPrecondition,
        // As gRPC's own libraries call a message that is too large.
        ErrorCode::TooLarge | ErrorCode::DirtyLimit => Code::ResourceExhausted,
        ErrorCode::InDoubt => Code::Unknown,
        ErrorCode::Expired => Code::DeadlineExceeded,
        ErrorCode::Unauthenticated => Code::Unauthenticated,
        ErrorCode::Forbidden => Code::PermissionDenied,
        ErrorCode::Unsupported => Code::Unimplemented,
        ErrorCode::Internal => Code::Internal,
    }
}

pub(crate) fn status_of(failure: Failure) -> Status {
    let (code, name, message) = (code_of(failure.code), failure.code.name(), failure.message.clone());
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE_METADATA, MetadataValue::from_static(name));
    let value = refusal_of(failure).encode_to_vec();
    let detail = Any { type_url: REFUSAL_TYPE.to_owned(), value };
    let envelope = Envelope { code: code as i32, message: message.clone(), details: vec![detail] };
    Status::with_details_and_metadata(code, message, envelope.encode_to_vec().into(), metadata)
}

pub(crate) fn refusal_of(failure: Failure) -> v1::Refusal {
    let record = failure.record.map(|record| convert::record(*record));
    v1::Refusal {
        code: failure.code.name().to_owned(),
        message: failure.message,
        version: failure.version.map(|version| version.0),
        sql_version: failure.sql_version.map(|version| version.0),
        record: record.filter(|record| record.encoded_len() <= SHOWN_RECORD_BYTES_MAX),
        item: failure.item.and_then(|item| u32::try_from(item).ok()),
        moved: failure.moved.map(|route| convert::route(*route)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_travels_by_its_name() {
        for code in ErrorCode::ALL {
            let status = status_of(Failure::coded(*code, "users:lili"));

            assert_eq!(status.metadata().get(CODE_METADATA).unwrap(), code.name());
            let envelope = Envelope::decode(status.details()).unwrap();
            let refusal = v1::Refusal::decode(envelope.details[0].value.as_slice()).unwrap();
            assert_eq!(refusal.code, code.name());
        }
    }

    #[test]
    fn what_may_have_been_done_is_never_called_unavailable() {
        assert_ne!(code_of(ErrorCode::InDoubt), Code::Unavailable);
        assert_ne!(code_of(ErrorCode::InDoubt), Code::DeadlineExceeded);
    }
}
