//! The service `Tables`.

use shardine_desk::{Clerk, Failure};
use shardine_model::{Backing, ErrorCode, Refusal, Table};
use shardine_proto::v1;
use shardine_router::{FieldSpec, TableSpec};
use tonic::{Request, Response, Status};

use crate::convert;
use crate::deadline::deadline;
use crate::status::status_of;

pub(crate) struct Tables {
    clerk: Clerk,
}

type Answer<T> = Result<Response<T>, Status>;

impl Tables {
    pub(crate) fn new(clerk: Clerk) -> Self {
        Self { clerk }
    }
}

#[tonic::async_trait]
impl v1::tables_server::Tables for Tables {
    async fn create(&self, request: Request<v1::CreateTableRequest>) -> Answer<v1::Table> {
        let until = deadline(&request);
        let spec = spec(request.into_inner()).map_err(|refusal| status_of(Failure::from(refusal)))?;
        let table = self.clerk.create_table(spec, until).await.map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn list(&self, _request: Request<v1::ListTablesRequest>) -> Answer<v1::ListTablesReply> {
        let tables = self.clerk.tables().iter().map(|table| table_out(table)).collect();
        Ok(Response::new(v1::ListTablesReply { tables }))
    }

    async fn show(&self, request: Request<v1::ShowTableRequest>) -> Answer<v1::Table> {
        let table = self.clerk.table(&request.into_inner().name).map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn add_field(&self, request: Request<v1::AddFieldRequest>) -> Answer<v1::Table> {
        let until = deadline(&request);
        let add = request.into_inner();
        let field = add.field.ok_or_else(|| convert::missing("the field")).and_then(field);
        let field = field.map_err(|refusal| status_of(Failure::from(refusal)))?;
        let table = self.clerk.add_field(add.table, field, until).await.map_err(status_of)?;
        Ok(Response::new(table_out(&table)))
    }

    async fn drop(&self, request: Request<v1::DropTableRequest>) -> Answer<v1::DropTableReply> {
        let until = deadline(&request);
        self.clerk.drop_table(request.into_inner().name, until).await.map_err(status_of)?;
        Ok(Response::new(v1::DropTableReply {}))
    }
}

fn spec(create: v1::CreateTableRequest) -> Result<TableSpec, Refusal> {
    let backing = match v1::Backing::try_from(create.backing) {
        Ok(v1::Backing::Sql) => Backing::Sql,
        Ok(v1::Backing::None) => Backing::None,
        Err(_) => return Err(Refusal::new(ErrorCode::BadRequest, "backing has an unknown value")),
    };
    let sort = create.sort.into_iter().map(|part| Ok((part.name, convert::kind(part.r#type)?)));
    Ok(TableSpec {
        name: create.name,
        fields: create.fields.into_iter().map(field).collect::<Result<_, _>>()?,
        sort: sort.collect::<Result<_, Refusal>>()?,
        backing,
    })
}

fn field(field: v1::FieldDefinition) -> Result<FieldSpec, Refusal> {
    let default = match field.default {
        None => None,
        given => Some(convert::value(given, "the default")?),
    };
    Ok(FieldSpec { name: field.name, kind: convert::kind(field.r#type)?, default })
}

fn table_out(table: &Table) -> v1::Table {
    let fields = table.fields.iter().map(|field| v1::FieldDefinition {
        name: field.name.clone(),
        r#type: convert::kind_out(field.kind).into(),
        default: Some(convert::value_out(field.default.clone())),
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
    }
}
