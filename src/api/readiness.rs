//! What `grpc.health.v1` answers: whether this process takes calls.
//!
//! Owns the answer for the process and for its services; does not find out whether the database or a provider is well.

use tonic::server::NamedService as _;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use super::{email::EmailApi, operator::OperatorApi};
use crate::proto::v1::{email_service_server::EmailServiceServer, operator_service_server::OperatorServiceServer};

/// The names that are answered for: the process, and its services.
const NAMES: [&str; 3] = ["", EmailServiceServer::<EmailApi>::NAME, OperatorServiceServer::<OperatorApi>::NAME];

/// The switch behind `grpc.health.v1`. Clones switch the same answer.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    reporter: HealthReporter,
}

impl Readiness {
    /// From now on the answer is SERVING.
    pub async fn set_serving(&self) {
        self.set(ServingStatus::Serving).await;
    }

    /// From now on the answer is NOT_SERVING: callers that look go elsewhere.
    pub async fn set_not_serving(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends the streams of those who watch. A watch has no end of its own, and would keep the server from stopping.
    pub(super) async fn end_watches(&self) {
        let mut reporter = self.reporter.clone();
        for name in NAMES {
            reporter.clear_service_status(name).await;
        }
    }

    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    async fn set(&self, status: ServingStatus) {
        for name in NAMES {
            self.reporter.set_service_status(name, status).await;
        }
    }
}
