//! The App as a limiter for the client's tower layer, without a network between them.

use hermod_client::layer::Limiter;
use hermod_client::{CheckRequest, Checked, ClientError, Problem as Refused};

use crate::app::{App, Caller};
use crate::code::Problem;
use crate::http::{CheckBody, CheckDocument};

/// Answers checks within this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InProcess {
    app: App,
    caller: Caller,
}

impl InProcess {
    pub(crate) fn new(app: App, caller: Caller) -> InProcess {
        InProcess { app, caller }
    }
}

impl Limiter for InProcess {
    /// By way of the same documents that HTTP carries, so that the answers cannot differ.
    async fn check(&self, request: CheckRequest) -> Result<Checked, ClientError> {
        let body: CheckBody = carry(&request)?;
        let ask = body.ask().map_err(|problem| refused(&problem))?;
        let answer = self.app.check(&self.caller, &ask, None).await.map_err(|problem| refused(&problem))?;
        carry(&CheckDocument::new(&answer))
    }
}

fn carry<T: serde::de::DeserializeOwned>(document: &impl serde::Serialize) -> Result<T, ClientError> {
    let carried = serde_json::to_value(document).and_then(serde_json::from_value);
    carried.map_err(|fault| ClientError::Problem(Box::new(Refused::new(500, "internal", fault.to_string()))))
}

fn refused(problem: &Problem) -> ClientError {
    ClientError::Problem(Box::new(Refused::new(problem.code.status(), problem.code.text(), problem.detail.clone())))
}
