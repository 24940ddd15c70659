//! The rate limiter: resources of a node, and units of them.

use std::sync::Arc;

use prost_types::Duration;
use shardine_coord::{NodeCall, NodeReply, Pace, Patience, Refusal, ResourceCall, Status as Code, Units};
use shardine_proto::ydb::operations::OperationParams;
use shardine_proto::ydb::rate_limiter::acquire_resource_request::Units as UnitsMessage;
use shardine_proto::ydb::rate_limiter::resource::Type;
use shardine_proto::ydb::rate_limiter::v1::rate_limiter_service_server::RateLimiterService;
use shardine_proto::ydb::rate_limiter::{
    AcquireResourceRequest, AcquireResourceResponse, AcquireResourceResult, AlterResourceRequest,
    AlterResourceResponse, AlterResourceResult, CreateResourceRequest, CreateResourceResponse, CreateResourceResult,
    DescribeResourceRequest, DescribeResourceResponse, DescribeResourceResult, DropResourceRequest,
    DropResourceResponse, DropResourceResult, HierarchicalDrrSettings, ListResourcesRequest, ListResourcesResponse,
    ListResourcesResult, Resource,
};
use tonic::{Request, Response, Status};

use crate::engine::{CoordEngine, call};
use crate::envelope::{bad_request, packed};
use crate::nodes::{check_database, pass_of};
use crate::rights::Right;

const NANOS_PER_SECOND: u32 = 1_000_000_000;

pub(crate) struct RateLimiter {
    engine: Arc<dyn CoordEngine>,
}

/// A call as it was sent: which node, which resource, what of it.
struct Asked {
    node: String,
    path: String,
    call: Result<ResourceCall, Refusal>,
}

impl RateLimiter {
    pub(crate) fn new(engine: Arc<dyn CoordEngine>) -> Self {
        Self { engine }
    }

    async fn ask<T>(&self, request: Request<T>, asked: impl FnOnce(T) -> Asked) -> Result<NodeReply, Refusal> {
        let (metadata, extensions, message) = request.into_parts();
        let asked = asked(message);
        check_database(&metadata, &asked.node)?;
        let resource_call = asked.call?;
        pass_of(&extensions).check(&asked.node, right_for(&resource_call))?;
        call(&self.engine, NodeCall::Resource { node: asked.node, path: asked.path, call: resource_call }).await
    }
}

fn right_for(call: &ResourceCall) -> Right {
    match call {
        ResourceCall::List { .. } | ResourceCall::Describe => Right::Read,
        ResourceCall::Create(_) | ResourceCall::Alter(_) | ResourceCall::Acquire { .. } => Right::Write,
        ResourceCall::Drop => Right::Erase,
    }
}

fn change(node: String, resource: Option<Resource>, call: impl FnOnce(Pace) -> ResourceCall) -> Asked {
    let Resource { resource_path, r#type } = resource.unwrap_or_default();
    let pace = r#type.map(|Type::HierarchicalDrr(settings)| pace_of(&settings));
    Asked { node, path: resource_path, call: pace.map(call).ok_or_else(|| bad_request("No resource properties.")) }
}

fn pace_of(settings: &HierarchicalDrrSettings) -> Pace {
    Pace {
        max_units_per_second: settings.max_units_per_second,
        max_burst_size_coefficient: settings.max_burst_size_coefficient,
        prefetch_coefficient: settings.prefetch_coefficient,
        prefetch_watermark: settings.prefetch_watermark,
    }
}

fn message_of(path: String, pace: &Pace) -> Resource {
    let settings = HierarchicalDrrSettings {
        max_units_per_second: pace.max_units_per_second,
        max_burst_size_coefficient: pace.max_burst_size_coefficient,
        prefetch_coefficient: pace.prefetch_coefficient,
        prefetch_watermark: pace.prefetch_watermark,
    };
    Resource { resource_path: path, r#type: Some(Type::HierarchicalDrr(settings)) }
}

fn acquire(request: AcquireResourceRequest) -> Asked {
    let patience = request.operation_params.as_ref().and_then(patience_of);
    let units = match request.units {
        Some(UnitsMessage::Required(units)) => Ok(Units::Required(units)),
        Some(UnitsMessage::Used(units)) => Ok(Units::Used(units)),
        None => Err(bad_request("units are required or used")),
    };
    let call = units.map(|units| ResourceCall::Acquire { units, patience });
    Asked { node: request.coordination_node_path, path: request.resource_path, call }
}

/// The shorter of the two times; the client's own ends with CANCELLED (coordination 210). 0 means none.
fn patience_of(params: &OperationParams) -> Option<Patience> {
    let operation = params.operation_timeout.as_ref().and_then(millis);
    let cancel = params.cancel_after.as_ref().and_then(millis);
    match (operation, cancel) {
        (operation, Some(ms)) if operation.is_none_or(|operation| ms < operation) => {
            Some(Patience { ms, status: Code::Cancelled })
        }
        (Some(ms), _) => Some(Patience { ms, status: Code::Timeout }),
        (None, _) => None,
    }
}

/// A duration that the protocol forbids (below zero, or a second in nanoseconds) is no time at all, like 0.
fn millis(duration: &Duration) -> Option<u64> {
    // Not the library's conversion: it negates, and the smallest number has no opposite.
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < NANOS_PER_SECOND)?;
    let duration = std::time::Duration::new(seconds, nanos);
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).ok().filter(|ms| *ms > 0)
}

/// The answer to whatever carries nothing but that it was done.
fn nothing<M: prost::Message + Default>(
    name: &str,
    reply: Result<NodeReply, Refusal>,
) -> Option<shardine_proto::ydb::operations::Operation> {
    packed(name, reply.map(|_| M::default()))
}

fn strange() -> Refusal {
    Refusal::new(Code::Unavailable, "the rate limiter did not answer")
}

#[tonic::async_trait]
impl RateLimiterService for RateLimiter {
    async fn create_resource(
        &self,
        request: Request<CreateResourceRequest>,
    ) -> Result<Response<CreateResourceResponse>, Status> {
        let asked = |it: CreateResourceRequest| change(it.coordination_node_path, it.resource, ResourceCall::Create);
        let reply = self.ask(request, asked).await;
        let operation = nothing::<CreateResourceResult>("Ydb.RateLimiter.CreateResourceResult", reply);
        Ok(Response::new(CreateResourceResponse { operation }))
    }

    async fn alter_resource(
        &self,
        request: Request<AlterResourceRequest>,
    ) -> Result<Response<AlterResourceResponse>, Status> {
        let asked = |it: AlterResourceRequest| change(it.coordination_node_path, it.resource, ResourceCall::Alter);
        let reply = self.ask(request, asked).await;
        let operation = nothing::<AlterResourceResult>("Ydb.RateLimiter.AlterResourceResult", reply);
        Ok(Response::new(AlterResourceResponse { operation }))
    }

    async fn drop_resource(
        &self,
        request: Request<DropResourceRequest>,
    ) -> Result<Response<DropResourceResponse>, Status> {
        let asked = |it: DropResourceRequest| Asked {
            node: it.coordination_node_path,
            path: it.resource_path,
            call: Ok(ResourceCall::Drop),
        };
        let operation =
            nothing::<DropResourceResult>("Ydb.RateLimiter.DropResourceResult", self.ask(request, asked).await);
        Ok(Response::new(DropResourceResponse { operation }))
    }

    async fn list_resources(
        &self,
        request: Request<ListResourcesRequest>,
    ) -> Result<Response<ListResourcesResponse>, Status> {
        let asked = |it: ListResourcesRequest| Asked {
            node: it.coordination_node_path,
            path: it.resource_path,
            call: Ok(ResourceCall::List { recursive: it.recursive }),
        };
        let listed = self.ask(request, asked).await.and_then(|reply| match reply {
            NodeReply::Resources(resource_paths) => Ok(ListResourcesResult { resource_paths }),
            _ => Err(strange()),
        });
        let operation = packed("Ydb.RateLimiter.ListResourcesResult", listed);
        Ok(Response::new(ListResourcesResponse { operation }))
    }

    async fn describe_resource(
        &self,
        request: Request<DescribeResourceRequest>,
    ) -> Result<Response<DescribeResourceResponse>, Status> {
        let asked = |it: DescribeResourceRequest| Asked {
            node: it.coordination_node_path,
            path: it.resource_path,
            call: Ok(ResourceCall::Describe),
        };
        let described = self.ask(request, asked).await.and_then(|reply| match reply {
            NodeReply::Resource { path, pace } => {
                Ok(DescribeResourceResult { resource: Some(message_of(path, &pace)) })
            }
            _ => Err(strange()),
        });
        let operation = packed("Ydb.RateLimiter.DescribeResourceResult", described);
        Ok(Response::new(DescribeResourceResponse { operation }))
    }

    async fn acquire_resource(
        &self,
        request: Request<AcquireResourceRequest>,
    ) -> Result<Response<AcquireResourceResponse>, Status> {
        let reply = self.ask(request, acquire).await;
        let operation = nothing::<AcquireResourceResult>("Ydb.RateLimiter.AcquireResourceResult", reply);
        Ok(Response::new(AcquireResourceResponse { operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// coordination 210.
    #[test]
    fn the_shorter_time_counts_and_says_which_it_was() {
        let ms = |ms: i32| Some(Duration { seconds: i64::from(ms / 1_000), nanos: ms % 1_000 * 1_000_000 });
        let patience = |operation_timeout, cancel_after| {
            patience_of(&OperationParams { operation_timeout, cancel_after }).map(|it| (it.ms, it.status))
        };

        assert_eq!(patience(None, None), None);
        assert_eq!(patience(ms(0), ms(0)), None);
        assert_eq!(patience(ms(1_500), None), Some((1_500, Code::Timeout)));
        assert_eq!(patience(ms(1_500), ms(1_500)), Some((1_500, Code::Timeout)));
        assert_eq!(patience(ms(1_500), ms(300)), Some((300, Code::Cancelled)));
        assert_eq!(patience(None, ms(300)), Some((300, Code::Cancelled)));
        assert_eq!(patience(Some(Duration { seconds: -1, nanos: 0 }), None), None);
        let worst = [(i64::MIN, 0), (i64::MIN, i32::MIN), (i64::MAX, i32::MAX), (0, i32::MIN), (-1, 999_999_999)];
        for (seconds, nanos) in worst {
            assert_eq!(patience(Some(Duration { seconds, nanos }), None), None, "{seconds} s {nanos} ns");
        }
        let ages = Some(Duration { seconds: i64::MAX, nanos: 0 });
        assert_eq!(patience(ages, None), None, "longer than anybody can count is no limit");
    }
}
