//! The service `Records`.

use prost::Message;
use shardine_model::{AckAfter, ErrorCode, Refusal, Version};
use shardine_proto::{DIRECT_METADATA, MESSAGE_BYTES_MAX, v1};
use shardine_service::{BatchOrder, Changed, Delivery, Failure, Forwarding, Got, Item, Order, RecordService, Scan};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::convert;
use crate::deadline::deadline;
use crate::status::{refusal_of, status_of};

pub(crate) struct Records {
    record_service: RecordService,
}

type Answer<T> = Result<Response<T>, Status>;

impl Records {
    pub(crate) fn new(record_service: RecordService) -> Self {
        Self { record_service }
    }

    /// The service as the sender of a request wants it.
    fn service<T>(&self, request: &Request<T>) -> RecordService {
        let is_direct = request.metadata().contains_key(DIRECT_METADATA);
        self.record_service.forwarding(if is_direct { Forwarding::Off } else { Forwarding::On })
    }

    /// A change of one row, once its protobuf form is understood.
    async fn change(
        &self,
        (service, until): (RecordService, Instant),
        order: Result<Order, Refusal>,
        delivery: Option<v1::Delivery>,
    ) -> Result<Changed, Status> {
        let order = order.map_err(refused)?;
        let delivery = convert::delivery(delivery).map_err(refused)?;
        service.change(order, delivery, until).await.map_err(status_of)
    }
}

fn refused(refusal: Refusal) -> Status {
    status_of(Failure::from(refusal))
}

/// A reply as it goes out, unless it is longer than messages may be: tonic would end it without a code, and without saying whether
/// something was changed.
fn sent<T: Message>(reply: T, effect: Effect) -> Answer<T> {
    let bytes = reply.encoded_len();
    if bytes <= MESSAGE_BYTES_MAX {
        return Ok(Response::new(reply));
    }
    let limit = format!("the reply has {bytes} bytes, and a message {MESSAGE_BYTES_MAX} at most");
    Err(status_of(match effect {
        Effect::Reads => Failure::new(ErrorCode::TooLarge, format!("{limit}: ask for fewer records or fields at once")),
        Effect::Changes => Failure::new(ErrorCode::InDoubt, format!("the change was made, but {limit}")),
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Changes,
}

fn got(got: Got) -> v1::GetReply {
    v1::GetReply { record: Some(convert::record(got.record)), unchanged: got.unchanged, applied_index: got.applied }
}

#[tonic::async_trait]
impl v1::records_server::Records for Records {
    async fn get(&self, request: Request<v1::GetRequest>) -> Answer<v1::GetReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let get = convert::get(request.into_inner()).map_err(refused)?;
        let found = service.get(get, until).await.map_err(status_of)?;
        sent(got(found), Effect::Reads)
    }

    async fn m_get(&self, request: Request<v1::MGetRequest>) -> Answer<v1::MGetReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let gets: Result<Vec<_>, _> = request.into_inner().gets.into_iter().map(convert::get).collect();
        let found = service.mget(gets.map_err(refused)?, until).await.map_err(status_of)?;
        let results = found.into_iter().map(|one| {
            let result = match one {
                Ok(found) => v1::m_get_result::Result::Reply(got(found)),
                Err(failure) => v1::m_get_result::Result::Refusal(refusal_of(failure)),
            };
            v1::MGetResult { result: Some(result) }
        });
        sent(v1::MGetReply { results: results.collect() }, Effect::Reads)
    }

    async fn set(&self, request: Request<v1::SetRequest>) -> Answer<v1::ChangeReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut set = request.into_inner();
        let delivery = set.delivery.take();
        sent(convert::changed(self.change((service, until), convert::set(set), delivery).await?), Effect::Changes)
    }

    async fn insert(&self, request: Request<v1::InsertRequest>) -> Answer<v1::ChangeReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut insert = request.into_inner();
        let delivery = insert.delivery.take();
        sent(convert::changed(self.change((service, until), convert::insert(insert), delivery).await?), Effect::Changes)
    }

    async fn replace(&self, request: Request<v1::ReplaceRequest>) -> Answer<v1::ChangeReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut replace = request.into_inner();
        let delivery = replace.delivery.take();
        sent(
            convert::changed(self.change((service, until), convert::replace(replace), delivery).await?),
            Effect::Changes,
        )
    }

    async fn update(&self, request: Request<v1::UpdateRequest>) -> Answer<v1::ChangeReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut update = request.into_inner();
        let delivery = update.delivery.take();
        sent(convert::changed(self.change((service, until), convert::update(update), delivery).await?), Effect::Changes)
    }

    async fn cas(&self, request: Request<v1::CasRequest>) -> Answer<v1::ChangeReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut cas = request.into_inner();
        let delivery = cas.delivery.take();
        sent(convert::changed(self.change((service, until), convert::cas(cas), delivery).await?), Effect::Changes)
    }

    async fn incr(&self, request: Request<v1::IncrRequest>) -> Answer<v1::IncrReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut incr = request.into_inner();
        let (delivery, field) = (incr.delivery.take(), incr.field.clone());
        let changed = self.change((service, until), convert::incr(incr), delivery).await?;
        let value = changed.record.and_then(|record| record.value(field.as_bytes()).cloned()).map(convert::value_out);
        sent(v1::IncrReply { version: changed.version.0, sql_version: changed.sql_version.0, value }, Effect::Changes)
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Answer<v1::DeleteReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let mut delete = request.into_inner();
        let delivery = delete.delivery.take();
        let changed = self.change((service, until), convert::delete(delete), delivery).await?;
        let reply = v1::DeleteReply {
            version: changed.version.0,
            sql_version: changed.sql_version.0,
            existed: changed.changed > 0,
            record: changed.record.filter(|_| changed.changed > 0).map(convert::record),
        };
        sent(reply, Effect::Changes)
    }

    async fn batch(&self, request: Request<v1::BatchRequest>) -> Answer<v1::BatchReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let order = batch(request.into_inner()).map_err(refused)?;
        let effect = match order.items.iter().all(|item| matches!(item, Item::Read(_))) {
            true => Effect::Reads,
            false => Effect::Changes,
        };
        let results = service.batch(order, until).await.map_err(status_of)?;
        sent(v1::BatchReply { replies: results.into_iter().map(convert::changed).collect() }, effect)
    }

    async fn kick(&self, request: Request<v1::KickRequest>) -> Answer<v1::KickReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let kick = request.into_inner();
        let row = convert::row(kick.row).map_err(refused)?;
        service.kick(&row, kick.nowait, until).await.map_err(status_of)?;
        Ok(Response::new(v1::KickReply {}))
    }

    async fn flush(&self, request: Request<v1::FlushRequest>) -> Answer<v1::FlushReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let v1::FlushRequest { scope, version } = request.into_inner();
        let flushed = match scope {
            Some(v1::flush_request::Scope::Row(row)) => {
                let row = convert::row(Some(row)).map_err(refused)?;
                service.flush_row(&row, version.map(Version), until).await
            }
            Some(_) if version.is_some() => {
                let message = "a version is one of a row: name the row";
                Err(Refusal::new(ErrorCode::BadRequest, message).into())
            }
            Some(v1::flush_request::Scope::Table(table)) => service.flush(Some(&table), until).await,
            Some(v1::flush_request::Scope::All(true)) => service.flush(None, until).await,
            Some(v1::flush_request::Scope::All(false)) | None => Err(convert::missing("the scope").into()),
        };
        flushed.map_err(status_of)?;
        Ok(Response::new(v1::FlushReply {}))
    }

    async fn scan(&self, request: Request<v1::ScanRequest>) -> Answer<v1::ScanReply> {
        let (service, until) = (self.service(&request), deadline(&request));
        let scan = scan(request.into_inner()).map_err(refused)?;
        let page = service.scan(scan, until).await.map_err(status_of)?;
        let records = page.records.into_iter().map(convert::record).collect();
        sent(v1::ScanReply { records, next: page.next.unwrap_or_default() }, Effect::Reads)
    }
}

fn scan(scan: v1::ScanRequest) -> Result<Scan, Refusal> {
    Ok(Scan {
        table: scan.table,
        partition: scan.partition,
        from: convert::edge(scan.from)?,
        to: convert::edge(scan.to)?,
        descending: scan.descending,
        limit: scan.limit as usize,
        cursor: Some(scan.cursor).filter(|cursor| !cursor.is_empty()),
        fields: convert::names(scan.fields),
    })
}

fn batch(batch: v1::BatchRequest) -> Result<BatchOrder, Refusal> {
    let condition = |condition: v1::Condition| Ok((convert::row(condition.row)?, Version(condition.version)));
    Ok(BatchOrder {
        conditions: batch.conditions.into_iter().map(condition).collect::<Result<_, Refusal>>()?,
        items: batch.items.into_iter().map(item).collect::<Result<_, _>>()?,
        delivery: convert::delivery(batch.delivery)?,
    })
}

fn item(item: v1::BatchItem) -> Result<Item, Refusal> {
    use v1::batch_item::Item as Wire;
    let item = item.item.ok_or_else(|| convert::missing("the command of a batch item"))?;
    let (delivery, order) = match item {
        Wire::Get(get) => return convert::get(get).map(Item::Read),
        Wire::Set(mut set) => (set.delivery.take(), convert::set(set)),
        Wire::Insert(mut insert) => (insert.delivery.take(), convert::insert(insert)),
        Wire::Replace(mut replace) => (replace.delivery.take(), convert::replace(replace)),
        Wire::Update(mut update) => (update.delivery.take(), convert::update(update)),
        Wire::Cas(mut cas) => (cas.delivery.take(), convert::cas(cas)),
        Wire::Incr(mut incr) => (incr.delivery.take(), convert::incr(incr)),
        Wire::Delete(mut delete) => (delete.delivery.take(), convert::delete(delete)),
    };
    no_delivery(delivery)?;
    order.map(Item::Change)
}

/// A batch is delivered as one thing; a number on an item would promise what nobody keeps.
fn no_delivery(delivery: Option<v1::Delivery>) -> Result<(), Refusal> {
    let given = delivery.map(|delivery| convert::delivery(Some(delivery))).transpose()?;
    match given {
        Some(Delivery { origin: Some(_), .. }) | Some(Delivery { ack: AckAfter::Sql | AckAfter::Raft, .. }) => {
            Err(Refusal::new(ErrorCode::BadRequest, "delivery belongs to the batch, not to its items"))
        }
        Some(_) | None => Ok(()),
    }
}
