//! The service `Tables`.

use shardine_model::{
    Backing, Conflict, Deletes, ErrorCode, Mapping, Refusal, SqlOptions, Table, Value, WriteMode, limits,
};
use shardine_proto::v1;
use shardine_router::{FieldSpec, TableSpec};
use shardine_service::{Failure, RecordService, Warm};
use tonic::{Request, Response, Status};

use crate::convert;
use crate::deadline::deadline;
use crate::status::status_of;

pub(crate) struct Tables {
    record_service: RecordService,
}

type Answer<T> = Result<Response<T>, Status>;

impl Tables {
    pub(crate) fn new(record_service: RecordService) -> Self {
        Self { record_service }
    }
}

#[tonic::async_trait]
impl v1::tables_server::Tables for Tables {
    async fn create(&self, request: Request<v1::CreateTableRequest>) -> Answer<v1::Table> {
        let until = deadline(&request);
        let spec = spec(request.into_inner()).map_err(|refusal| status_of(Failure::from(refusal)))?;
        let table = self.record_service.create_table(spec, until).await.map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn list(&self, _request: Request<v1::ListTablesRequest>) -> Answer<v1::ListTablesReply> {
        let tables = self.record_service.tables().iter().map(|table| table_out(table)).collect();
        Ok(Response::new(v1::ListTablesReply { tables }))
    }

    async fn show(&self, request: Request<v1::ShowTableRequest>) -> Answer<v1::Table> {
        let table = self.record_service.table(&request.into_inner().name).map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn add_field(&self, request: Request<v1::AddFieldRequest>) -> Answer<v1::Table> {
        let until = deadline(&request);
        let add = request.into_inner();
        let field = add.field.ok_or_else(|| convert::missing("the field")).and_then(field);
        let field = field.map_err(|refusal| status_of(Failure::from(refusal)))?;
        let table = self.record_service.add_field(add.table, field, until).await.map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn drop(&self, request: Request<v1::DropTableRequest>) -> Answer<v1::DropTableReply> {
        let until = deadline(&request);
        self.record_service.drop_table(request.into_inner().name, until).await.map_err(status_of)?;
        Ok(Response::new(v1::DropTableReply {}))
    }

    async fn warm(&self, request: Request<v1::WarmTableRequest>) -> Answer<v1::WarmTableReply> {
        let until = deadline(&request);
        let v1::WarmTableRequest { table, rows, limit, cursor } = request.into_inner();
        let rows: Result<Vec<_>, Refusal> = rows.into_iter().map(|row| convert::row(Some(row))).collect();
        let rows = rows.map_err(|refusal| status_of(Failure::from(refusal)))?;
        let cursor = (!cursor.is_empty()).then_some(cursor);
        let warmed = self.record_service.warm(Warm { table, rows, limit: limit as usize, cursor }, until).await;
        let warmed = warmed.map_err(status_of)?;
        Ok(Response::new(v1::WarmTableReply {
            rows: warmed.rows,
            loaded: warmed.loaded,
            missing: warmed.missing,
            progress: warmed.progress(),
            is_full: warmed.is_full,
            next: warmed.next.unwrap_or_default(),
        }))
    }
}

fn spec(create: v1::CreateTableRequest) -> Result<TableSpec, Refusal> {
    let backing = match v1::Backing::try_from(create.backing) {
        Ok(v1::Backing::Sql) => Backing::Sql,
        Ok(v1::Backing::None) => Backing::None,
        Err(_) => return Err(Refusal::new(ErrorCode::BadRequest, "backing has an unknown value")),
    };
    let sort = create.sort.into_iter().map(|part| Ok((part.name, convert::plain_kind(part.r#type)?)));
    Ok(TableSpec {
        name: create.name,
        fields: create.fields.into_iter().map(field).collect::<Result<_, _>>()?,
        sort: sort.collect::<Result<_, Refusal>>()?,
        backing,
        sql: sql_options(create.sql.unwrap_or_default())?,
    })
}

fn sql_options(given: v1::SqlOptions) -> Result<SqlOptions, Refusal> {
    let unknown = |what: &str| Refusal::new(ErrorCode::BadRequest, format!("{what} has an unknown value"));
    let default = SqlOptions::default();
    Ok(SqlOptions {
        mode: match v1::WriteMode::try_from(given.mode).map_err(|_| unknown("mode"))? {
            v1::WriteMode::Behind => WriteMode::Behind,
            v1::WriteMode::Through => WriteMode::Through,
            v1::WriteMode::OnEvict => WriteMode::OnEvict,
        },
        delay_ms: given.delay_ms.unwrap_or(limits::WRITE_DELAY_MS),
        batch: if given.batch == 0 { default.batch } else { given.batch },
        conflict: match v1::Conflict::try_from(given.conflict).map_err(|_| unknown("conflict"))? {
            v1::Conflict::CacheWins => Conflict::CacheWins,
            v1::Conflict::SqlWins => Conflict::SqlWins,
            v1::Conflict::Stop => Conflict::Stop,
        },
        tombstone_keep_ms: if given.tombstone_keep_ms == 0 {
            default.tombstone_keep_ms
        } else {
            given.tombstone_keep_ms
        },
        mapping: given.mapping.map(mapping).transpose()?,
        after: given.after,
    })
}

fn mapping(given: v1::Mapping) -> Result<Mapping, Refusal> {
    let unknown = |_| Refusal::new(ErrorCode::BadRequest, "deletes is of no known kind");
    Ok(Mapping {
        deletes: match v1::Deletes::try_from(given.deletes).map_err(unknown)? {
            v1::Deletes::Row => Deletes::Row,
            v1::Deletes::Tombstone => Deletes::Tombstone,
        },
        table: given.table,
        key: given.key,
        key_type: convert::plain_kind(given.key_type)?,
        version: Some(given.version).filter(|version| !version.is_empty()),
        columns: given.columns,
    })
}

fn sql_options_out(sql: &SqlOptions) -> v1::SqlOptions {
    let mode = match sql.mode {
        WriteMode::Behind => v1::WriteMode::Behind,
        WriteMode::Through => v1::WriteMode::Through,
        WriteMode::OnEvict => v1::WriteMode::OnEvict,
    };
    let conflict = match sql.conflict {
        Conflict::CacheWins => v1::Conflict::CacheWins,
        Conflict::SqlWins => v1::Conflict::SqlWins,
        Conflict::Stop => v1::Conflict::Stop,
    };
    let mapping = sql.mapping.as_ref().map(|mapping| v1::Mapping {
        table: mapping.table.clone(),
        key: mapping.key.clone(),
        key_type: convert::kind_out(mapping.key_type).into(),
        version: mapping.version.clone().unwrap_or_default(),
        columns: mapping.columns.clone(),
        deletes: match mapping.deletes {
            Deletes::Row => v1::Deletes::Row,
            Deletes::Tombstone => v1::Deletes::Tombstone,
        }
        .into(),
    });
    v1::SqlOptions {
        mode: mode.into(),
        delay_ms: Some(sql.delay_ms),
        batch: sql.batch,
        conflict: conflict.into(),
        tombstone_keep_ms: sql.tombstone_keep_ms,
        mapping,
        after: sql.after.clone(),
    }
}

fn field(field: v1::FieldDefinition) -> Result<FieldSpec, Refusal> {
    let default = match field.default {
        None => None,
        given => Some(convert::value(given, "the default")?),
    };
    let kind = convert::kind(field.r#type, &field.parameters)?;
    // A decimal gets the digits behind the point that the field has.
    let default = default.map(|default| match default {
        Value::Sql(value) => Value::Sql(value.fitted(kind).unwrap_or(value)),
        other => other,
    });
    Ok(FieldSpec { name: field.name, kind, nullable: field.nullable, default })
}

fn table_out(table: &Table) -> v1::Table {
    let fields = table.fields.iter().map(|field| v1::FieldDefinition {
        name: field.name.clone(),
        r#type: convert::kind_out(field.kind).into(),
        default: Some(convert::value_out(field.default.clone())),
        nullable: field.nullable,
        parameters: convert::parameters_out(field.kind),
    });
    let sort = table
        .sort
        .iter()
        .map(|part| v1::SortPart { name: part.name.clone(), r#type: convert::kind_out(part.kind).into() });
    v1::Table {
        name: table.name.clone(),
        id: table.id.0,
        definition_version: table.version,
        fields: fields.collect(),
        sort: sort.collect(),
        backing: match table.backing {
            Backing::Sql => v1::Backing::Sql.into(),
            Backing::None => v1::Backing::None.into(),
        },
        dynamic: table.dynamic,
        sql: (table.backing == Backing::Sql).then(|| sql_options_out(&table.sql)),
    }
}
