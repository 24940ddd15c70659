//! `set`, `insert`, `replace`, `update`, `incr`, `cas` and `del`.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value as Json, json};
use shardine_model::FieldType;
use shardine_proto::v1;
use tonic::{Response, Status};

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::{address, operation, value};

/// Conditions and extras of every change.
#[derive(Args)]
pub struct TermsArgs {
    /// Only if the record is at exactly this version; 0 or below: only if it is absent
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    if_version: Option<i64>,
    /// Answer when the change is in the Raft log, or in SQL too [default: as the table says]
    #[arg(long, value_enum)]
    ack: Option<Ack>,
    /// Delete the record after so many milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "persist")]
    ttl_ms: Option<u64>,
    /// Clear the time to live
    #[arg(long)]
    persist: bool,
    /// A number of this client, for requests that must be executed once however often they are sent
    #[arg(long, requires = "sequence")]
    client_id: Option<u64>,
    /// The number of this request
    #[arg(long, requires = "client_id")]
    sequence: Option<u64>,
    /// The request was sent before
    #[arg(long, requires = "client_id")]
    again: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ack {
    Raft,
    Sql,
}

impl TermsArgs {
    fn terms(&self) -> Option<v1::Terms> {
        let expiry = match self.ttl_ms {
            Some(ms) => Some(v1::terms::Expiry::TtlMs(ms)),
            None => self.persist.then_some(v1::terms::Expiry::Persist(true)),
        };
        Some(v1::Terms { if_version: self.if_version, expiry, ..v1::Terms::default() })
    }

    fn delivery(&self) -> Option<v1::Delivery> {
        let ack = match self.ack {
            None => v1::Ack::Raft.into(),
            Some(Ack::Raft) => v1::Ack::RaftOnly.into(),
            Some(Ack::Sql) => v1::Ack::Sql.into(),
        };
        let (client_id, sequence, again) = (self.client_id, self.sequence.unwrap_or(0), self.again);
        Some(v1::Delivery { client_id, sequence, ack, again, lowest_unanswered: None })
    }
}

#[derive(Args)]
pub struct FieldsArgs {
    /// table:key, or table:key@sort
    key: String,
    /// FIELD=VALUE, or FIELD:NULL
    fields: Vec<String>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl FieldsArgs {
    async fn open(&self) -> Result<(Connection, v1::Row, Vec<v1::Field>), Complaint> {
        let mut connection = Connection::open(&self.server).await?;
        let (table, row) = address::row(&mut connection, &self.key).await?;
        let fields =
            self.fields.iter().map(|typed| value::parse_assignment(&table, typed)).collect::<Result<_, _>>()?;
        Ok((connection, row, fields))
    }
}

pub async fn set(args: FieldsArgs, output: Output) -> Result<(), Complaint> {
    let (mut connection, row, fields) = args.open().await?;
    let (terms, delivery) = (args.terms.terms(), args.terms.delivery());
    let request = v1::SetRequest { row: Some(row), fields, terms, delivery };
    changed(connection.records.set(request).await, output)
}

pub async fn insert(args: FieldsArgs, output: Output) -> Result<(), Complaint> {
    let (mut connection, row, fields) = args.open().await?;
    let (terms, delivery) = (args.terms.terms(), args.terms.delivery());
    let request = v1::InsertRequest { row: Some(row), fields, terms, delivery };
    changed(connection.records.insert(request).await, output)
}

pub async fn replace(args: FieldsArgs, output: Output) -> Result<(), Complaint> {
    let (mut connection, row, fields) = args.open().await?;
    let (terms, delivery) = (args.terms.terms(), args.terms.delivery());
    let request = v1::ReplaceRequest { row: Some(row), fields, terms, delivery };
    changed(connection.records.replace(request).await, output)
}

#[derive(Args)]
pub struct UpdateArgs {
    /// table:key, or table:key@sort
    key: String,
    /// Operations in order
    #[arg(required = true, value_name = "OP")]
    operations: Vec<String>,
    /// Create the record from defaults if it is absent
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn update(args: UpdateArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (table, row) = address::row(&mut connection, &args.key).await?;
    let operations = args.operations.iter().map(|typed| operation::parse(&table, typed)).collect::<Result<_, _>>()?;
    let mut terms = args.terms.terms().unwrap_or_default();
    terms.r#return = v1::Return::New.into();
    let request = v1::UpdateRequest {
        row: Some(row),
        operations,
        create: args.create,
        terms: Some(terms),
        delivery: args.terms.delivery(),
    };
    changed(connection.records.update(request).await, output)
}

#[derive(Args)]
pub struct IncrArgs {
    /// table:key, or table:key@sort
    key: String,
    field: String,
    /// How much, of either sign
    #[arg(default_value = "1", allow_negative_numbers = true)]
    by: String,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn incr(args: IncrArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (table, row) = address::row(&mut connection, &args.key).await?;
    let kind = value::type_of(&table, &args.field)?;
    // An unsigned field takes a negative amount, too; only what no number can spell is left to the server to refuse.
    let kinds = [FieldType::Int64, FieldType::Uint64, FieldType::Float64];
    // A decimal is read as one first, so that no digit gets lost.
    let kinds = matches!(kind, FieldType::Decimal { .. }).then_some(kind).into_iter().chain(kinds);
    let by = kinds.into_iter().find_map(|kind| shardine_service::text::parse(kind, &args.by).ok());
    let by = by.map_or_else(|| shardine_service::text::parse(kind, &args.by), Ok).map_err(Complaint::from_usage)?;
    let request = v1::IncrRequest {
        row: Some(row),
        field: args.field,
        by: Some(value::from_model(by)),
        terms: args.terms.terms(),
        delivery: args.terms.delivery(),
    };
    let reply = connection.records.incr(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
    output.print(
        || value::text(reply.value.as_ref()),
        || {
            let mut object = versions(reply.version, reply.sql_version);
            object.insert("value".into(), value::json(reply.value.as_ref()));
            Json::Object(object)
        },
    );
    Ok(())
}

#[derive(Args)]
pub struct CasArgs {
    /// table:key, or table:key@sort
    key: String,
    field: String,
    /// What the field must hold, and what it shall hold then
    #[arg(value_names = ["OLD", "NEW"], num_args = 0..=2, allow_negative_numbers = true)]
    values: Vec<String>,
    /// It must hold NULL; OLD is left out
    #[arg(long)]
    old_null: bool,
    /// It shall hold NULL; NEW is left out
    #[arg(long)]
    new_null: bool,
    /// Create an absent record with the new value
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl CasArgs {
    fn values(&self, table: &v1::Table) -> Result<(v1::Value, v1::Value), Complaint> {
        let wanted = 2 - usize::from(self.old_null) - usize::from(self.new_null);
        if self.values.len() != wanted {
            let what = format!("cas takes {wanted} values here, not {}", self.values.len());
            return Err(Complaint::misused(
                what,
                "NULL is said by --old-null and --new-null",
                "shardine cas KEY FIELD OLD NEW",
            ));
        }
        let mut texts = self.values.iter();
        let mut next = |is_null: bool| match if is_null { None } else { texts.next() } {
            Some(text) => value::parse(table, &self.field, text),
            None => Ok(value::null()),
        };
        Ok((next(self.old_null)?, next(self.new_null)?))
    }
}

pub async fn cas(args: CasArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (table, row) = address::row(&mut connection, &args.key).await?;
    let (old, new) = args.values(&table)?;
    let request = v1::CasRequest {
        row: Some(row),
        old: Some(old),
        new: Some(new),
        field: args.field,
        create: args.create,
        terms: args.terms.terms(),
        delivery: args.terms.delivery(),
    };
    changed(connection.records.cas(request).await, output)
}

#[derive(Args)]
pub struct DelArgs {
    /// table:key, or table:key@sort
    key: String,
    /// Show the record as it was
    #[arg(long)]
    return_record: bool,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn delete(args: DelArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (_, row) = address::row(&mut connection, &args.key).await?;
    let request = v1::DeleteRequest {
        row: Some(row),
        return_record: args.return_record,
        terms: args.terms.terms(),
        delivery: args.terms.delivery(),
    };
    let reply =
        connection.records.delete(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
    output.print(
        || {
            let word = if reply.existed { "deleted" } else { "was not there" };
            let record = reply.record.as_ref().map(|record| show::record_text(record) + "\n").unwrap_or_default();
            format!("{record}{word}, version {}", reply.version)
        },
        || {
            let mut object = versions(reply.version, reply.sql_version);
            object.insert("existed".into(), json!(reply.existed));
            if let Some(record) = &reply.record {
                object.insert("record".into(), show::record_json(record));
            }
            Json::Object(object)
        },
    );
    Ok(())
}

fn changed(reply: Result<Response<v1::ChangeReply>, Status>, output: Output) -> Result<(), Complaint> {
    let reply = reply.map_err(|status| Complaint::from_status(&status))?.into_inner();
    output.print(
        || match &reply.record {
            Some(record) => show::record_text(record),
            None => format!("version {}, in SQL {}", reply.version, reply.sql_version),
        },
        || {
            let mut object = versions(reply.version, reply.sql_version);
            object.insert("changed".into(), json!(reply.changed));
            if let Some(record) = &reply.record {
                object.insert("record".into(), show::record_json(record));
            }
            Json::Object(object)
        },
    );
    Ok(())
}

fn versions(version: i64, sql_version: i64) -> Map<String, Json> {
    let mut object = Map::new();
    object.insert("version".into(), value::integer(version));
    object.insert("sql_version".into(), value::integer(sql_version));
    object
}
