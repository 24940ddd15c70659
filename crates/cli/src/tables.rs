//! `table create | list | show | add-field | warm | drop`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use shardine_proto::v1;
use shardine_service::text::{self, TypedField};

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::confirm::confirm;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::sql_args::{self, SqlArgs};
use crate::warm::WarmArgs;
use crate::{value, warm};

#[derive(Args)]
pub struct TableArgs {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Subcommand)]
enum TableCommand {
    /// Create a table
    #[command(
        after_help = "Types: int64 uint64 float64 string blob; sort parts are int64 or string.\n\nExample:\n  shardine table create users --field name:string --field age:int64=18\n  shardine table create events --sort at:int64 --field text:string --backing none\n  shardine table create clients --field name:string --map customers --map-key id:int64 --map-version rev --map-field name=full_name"
    )]
    Create {
        name: String,
        /// A field as NAME:TYPE or NAME:TYPE=DEFAULT; repeat for more. None, if SQL has lost a table that is defined here
        #[arg(long = "field", value_name = "NAME:TYPE")]
        fields: Vec<String>,
        /// A part of the sort key as NAME:TYPE; at most two
        #[arg(long = "sort", value_name = "NAME:TYPE")]
        sort: Vec<String>,
        /// Where rows are kept
        #[arg(long, value_enum, default_value_t = Backing::Sql)]
        backing: Backing,
        #[command(flatten)]
        sql: Box<SqlArgs>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// All tables
    #[command(after_help = "Example:\n  shardine table list")]
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// One table with its fields
    #[command(after_help = "Example:\n  shardine table show users")]
    Show {
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Add a field; records that are there answer its default
    #[command(after_help = "Example:\n  shardine table add-field users height:float64=1.5")]
    AddField {
        table: String,
        /// NAME:TYPE or NAME:TYPE=DEFAULT
        field: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Bring a table, or a list of its keys, into memory at a limited rate
    #[command(
        after_help = "Example:\n  shardine table warm users --rate 2000\n  shardine table warm users --keys hot.txt"
    )]
    Warm(WarmArgs),
    /// Drop a table: its records, and its rows in SQL unless it is mapped to a table of others
    #[command(after_help = "Example:\n  shardine table drop users --yes")]
    Drop {
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Backing {
    Sql,
    None,
}

pub async fn run(args: TableArgs, output: Output) -> Result<(), Complaint> {
    match args.command {
        TableCommand::Create { name, fields, sort, backing, sql, server } => {
            let request = creation(name, &fields, &sort, backing, &sql)?;
            let reply = Connection::open(&server).await?.tables.create(request).await;
            print_one(&reply.map_err(|status| Complaint::from_status(&status))?.into_inner(), output);
        }
        TableCommand::List { server } => {
            let reply = Connection::open(&server).await?.tables.list(v1::ListTablesRequest {}).await;
            let tables = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().tables;
            output.print(|| list_text(&tables), || json!({ "tables": tables.iter().map(json_of).collect::<Vec<_>>() }));
        }
        TableCommand::Show { name, server } => {
            let table = Connection::open(&server).await?.table(&name).await?;
            print_one(&table, output);
        }
        TableCommand::AddField { table, field: typed, server } => {
            let request = v1::AddFieldRequest { table, field: Some(field(&typed)?) };
            let reply = Connection::open(&server).await?.tables.add_field(request).await;
            print_one(&reply.map_err(|status| Complaint::from_status(&status))?.into_inner(), output);
        }
        TableCommand::Warm(args) => warm::run(args, output).await?,
        TableCommand::Drop { name, yes, server } => {
            if !yes {
                let question =
                    format!("drop table {name}, its records and its rows in SQL (not those of a mapped table)?");
                confirm(&question, &name, &format!("table {name} was not dropped"))?;
            }
            let request = v1::DropTableRequest { name: name.clone() };
            let reply = Connection::open(&server).await?.tables.drop(request).await;
            reply.map_err(|status| Complaint::from_status(&status))?;
            output.print(|| format!("dropped {name}"), || json!({ "dropped": name }));
        }
    }
    Ok(())
}

impl TableArgs {
    /// What `table create` asks the server for, if this is one.
    pub fn create_request(self) -> Option<Result<v1::CreateTableRequest, Complaint>> {
        match self.command {
            TableCommand::Create { name, fields, sort, backing, sql, .. } => {
                Some(creation(name, &fields, &sort, backing, &sql))
            }
            TableCommand::List { .. } | TableCommand::Show { .. } | TableCommand::AddField { .. } => None,
            TableCommand::Warm(_) | TableCommand::Drop { .. } => None,
        }
    }
}

fn creation(
    name: String,
    fields: &[String],
    sort: &[String],
    backing: Backing,
    sql: &SqlArgs,
) -> Result<v1::CreateTableRequest, Complaint> {
    let fields: Vec<v1::FieldDefinition> = fields.iter().map(|typed| field(typed)).collect::<Result<_, _>>()?;
    Ok(v1::CreateTableRequest {
        name,
        sql: Some(sql.options(&fields)?),
        fields,
        sort: sort.iter().map(|typed| sort_part(typed)).collect::<Result<_, _>>()?,
        backing: match backing {
            Backing::Sql => v1::Backing::Sql.into(),
            Backing::None => v1::Backing::None.into(),
        },
    })
}

fn field(typed: &str) -> Result<v1::FieldDefinition, Complaint> {
    let TypedField { name, kind, nullable, default } = text::parse_field(typed).map_err(Complaint::from_usage)?;
    let default = default.map(value::from_model);
    let parameters = value::parameters_out(kind);
    Ok(v1::FieldDefinition { name, r#type: value::field_type_out(kind), default, nullable, parameters })
}

fn sort_part(typed: &str) -> Result<v1::SortPart, Complaint> {
    let TypedField { name, kind, nullable, default } = text::parse_field(typed).map_err(Complaint::from_usage)?;
    if default.is_some() || nullable {
        let what = format!("sort part {typed:?} has a default, or may be NULL");
        return Err(Complaint::misused(what, "a sort key is always given", "NAME:TYPE"));
    }
    Ok(v1::SortPart { name, r#type: value::field_type_out(kind) })
}

fn print_one(table: &v1::Table, output: Output) {
    output.print(|| text_of(table), || json_of(table));
}

fn backing(table: &v1::Table) -> &'static str {
    match table.backing() {
        v1::Backing::Sql => "sql",
        v1::Backing::None => "none",
    }
}

fn list_text(tables: &[v1::Table]) -> String {
    let rows = tables.iter().map(|table| {
        let sorted = |part: &v1::SortPart| format!("{}:{}", part.name, value::field_type(part.r#type).name());
        let typed = |field: &v1::FieldDefinition| format!("{}:{}", field.name, value::type_text(field));
        let fields: Vec<String> = table.fields.iter().map(typed).collect();
        let sort: Vec<String> = table.sort.iter().map(sorted).collect();
        let fields = if table.dynamic { "any".to_owned() } else { fields.join(" ") };
        [table.name.clone(), backing(table).to_owned(), sort.join(" "), fields]
    });
    show::table(["TABLE", "BACKING", "SORT", "FIELDS"], rows.collect())
}

fn text_of(table: &v1::Table) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for part in &table.sort {
        rows.push([part.name.clone(), value::field_type(part.r#type).name().into_owned(), "(sort key)".to_owned()]);
    }
    for field in &table.fields {
        rows.push([field.name.clone(), value::type_text(field), value::text(field.default.as_ref())]);
    }
    let sql = table.sql.as_ref().map(|sql| format!("\n{}", sql_args::text_of(sql))).unwrap_or_default();
    let head =
        format!("table {}, backing {}, definition {}{sql}", table.name, backing(table), table.definition_version);
    let tail = if table.dynamic {
        "takes any field, all values blobs".to_owned()
    } else {
        show::table(["FIELD", "TYPE", "DEFAULT"], rows)
    };
    format!("{head}\n{tail}")
}

fn json_of(table: &v1::Table) -> Json {
    let fields: Vec<Json> = table
        .fields
        .iter()
        .map(|field| {
            json!({ "name": field.name, "type": value::type_text(field), "default": value::json(field.default.as_ref()) })
        })
        .collect();
    let sort: Vec<Json> = table
        .sort
        .iter()
        .map(|part| json!({ "name": part.name, "type": value::field_type(part.r#type).name() }))
        .collect();
    json!({
        "name": table.name,
        "id": table.id,
        "definition_version": table.definition_version,
        "backing": backing(table),
        "dynamic": table.dynamic,
        "fields": fields,
        "sort": sort,
        "sql": table.sql.as_ref().map(sql_args::json_of),
    })
}
