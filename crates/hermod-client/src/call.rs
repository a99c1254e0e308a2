//! One call: its tries, and what becomes of the answer.
//!
//! The body is written once, so that every try sends the same bytes with the same idempotency key;
//! the server refuses a key that comes back with another body.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::error::{ClientError, Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A request, ready to be sent any number of times.
struct Call {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    /// Whether a try whose outcome is unknown may be followed by another.
    is_repeatable: bool,
}

/// What came back.
pub(crate) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Client {
    /// Reads something. Repeating it is always safe.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, String)]) -> Result<T, ClientError> {
        let mut call = self.call(Method::GET, path)?;
        if !query.is_empty() {
            call.url.query_pairs_mut().extend_pairs(query);
        }
        self.send(&call).await?.json()
    }

    /// Changes something and reads the result.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut call = self.call_with(method, path, body)?;
        self.make_repeatable(&mut call, key)?;
        self.send(&call).await?.json()
    }

    /// Changes something so often that the server must not remember each time: only a caller's own
    /// key is sent. Without one it is repeated only if twice is the same as once (`is_repeatable`), or
    /// if nothing can have happened.
    pub(crate) async fn charge<T: DeserializeOwned>(
        &self,
        path: &[&str],
        key: Option<&str>,
        is_repeatable: bool,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut call = self.call_with(Method::POST, path, body)?;
        call.is_repeatable = is_repeatable;
        if key.is_some() {
            self.make_repeatable(&mut call, key)?;
        }
        self.send(&call).await?.json()
    }

    /// Says something that is the same when it is said twice, so that no key is needed.
    pub(crate) async fn say<T: DeserializeOwned>(&self, method: Method, path: &[&str], body: &impl Serialize) -> Result<T, ClientError> {
        self.say_by(method, path, &[], body).await
    }

    /// The same, with a query.
    pub(crate) async fn say_by<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut call = self.call_with(method, path, body)?;
        if !query.is_empty() {
            call.url.query_pairs_mut().extend_pairs(query);
        }
        self.send(&call).await?.json()
    }

    /// The same, of something that is to be no more.
    pub(crate) async fn withdraw(&self, path: &[&str], query: &[(&str, String)]) -> Result<(), ClientError> {
        let mut call = self.call(Method::DELETE, path)?;
        if !query.is_empty() {
            call.url.query_pairs_mut().extend_pairs(query);
        }
        self.send(&call).await.map(drop)
    }

    /// Asks for something that may take up to `wait` by design: what bounds other calls comes on top. Repeated
    /// only if nothing can have happened, also under a caller's own key: it is for who asks again.
    pub(crate) async fn wait_for<T: DeserializeOwned>(
        &self,
        path: &[&str],
        key: Option<&str>,
        wait: Duration,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut call = self.call_with(Method::POST, path, body)?;
        if let Some(key) = key {
            call.headers.insert(IDEMPOTENCY_KEY, header("idempotency key", key)?);
        }
        call.is_repeatable = false;
        self.send_within(&call, wait).await?.json()
    }

    /// Sends JSON as somebody else has written it, and reads the result.
    pub(crate) async fn write_as_is<T: DeserializeOwned>(&self, path: &[&str], key: Option<&str>, body: Vec<u8>) -> Result<T, ClientError> {
        let mut call = self.call(Method::POST, path)?;
        call.body = Some(body);
        call.headers.insert(CONTENT_TYPE, JSON);
        self.make_repeatable(&mut call, key)?;
        self.send(&call).await?.json()
    }

    /// Sends lines, and reads as many.
    pub(crate) async fn write_lines<T: DeserializeOwned>(
        &self,
        path: &[&str],
        key: Option<&str>,
        lines: Vec<u8>,
    ) -> Result<Vec<T>, ClientError> {
        let mut call = self.call(Method::POST, path)?;
        call.body = Some(lines);
        call.headers.insert(CONTENT_TYPE, LINES);
        self.make_repeatable(&mut call, key)?;
        self.send(&call).await?.lines()
    }

    /// Opens a stream of events, after the one that was `seen` last. One try: where to go on is the caller's to know.
    pub(crate) async fn stream(&self, path: &[&str], query: &[(&str, String)], seen: Option<&str>) -> Result<Response, ClientError> {
        let mut call = self.call(Method::GET, path)?;
        call.url.query_pairs_mut().extend_pairs(query);
        call.headers.insert(ACCEPT, EVENTS);
        if let Some(seen) = seen {
            call.headers.insert(LAST_EVENT_ID, header("event id", seen)?);
        }
        let opened = timeout_at(from_now(self.try_timeout.min(self.deadline)), self.request(&call).send());
        let response = opened.await.map_err(|_| ClientError::Timeout)?.map_err(transport)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let refused = timeout_at(from_now(self.try_timeout), Answer::read(response)).await.map_err(|_| ClientError::Timeout)??;
        let fault = refused.bad("it is not a stream");
        Err(refused.good().err().unwrap_or(fault))
    }

    /// Removes something.
    pub(crate) async fn remove(&self, path: &[&str], key: Option<&str>) -> Result<(), ClientError> {
        self.remove_by(path, &[], key).await
    }

    /// The same, with a query.
    pub(crate) async fn remove_by(&self, path: &[&str], query: &[(&str, &str)], key: Option<&str>) -> Result<(), ClientError> {
        let mut call = self.call(Method::DELETE, path)?;
        if !query.is_empty() {
            call.url.query_pairs_mut().extend_pairs(query);
        }
        self.make_repeatable(&mut call, key)?;
        self.send(&call).await.map(drop)
    }

    /// Removes something, and reads what became of it.
    pub(crate) async fn remove_with<T: DeserializeOwned>(&self, path: &[&str], key: Option<&str>) -> Result<T, ClientError> {
        let mut call = self.call(Method::DELETE, path)?;
        self.make_repeatable(&mut call, key)?;
        self.send(&call).await?.json()
    }

    /// Asks once, and takes an answer of status 503 for an answer: "not ready" is one.
    pub(crate) async fn probe<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        let call = self.call(Method::GET, path)?;
        let asked = timeout_at(from_now(self.try_timeout.min(self.deadline)), self.ask(&call));
        let answer = asked.await.map_err(|_| ClientError::Timeout)??;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE { answer.json() } else { answer.good()?.json() }
    }

    fn call(&self, method: Method, path: &[&str]) -> Result<Call, ClientError> {
        let mut url = self.base.clone();
        // A URL swallows these, and the call would reach something else than was meant.
        if path.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(ClientError::invalid("id", "must not be empty, \".\" or \"..\""));
        }
        url.path_segments_mut().map_err(|()| ClientError::invalid("server address", "it cannot have a path"))?.pop_if_empty().extend(path);
        let mut headers = HeaderMap::new();
        if let Some(key) = &self.key {
            let mut value = header("key", &format!("Bearer {}", key.expose()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Call { method, url, headers, body: None, is_repeatable: true })
    }

    fn call_with(&self, method: Method, path: &[&str], body: &impl Serialize) -> Result<Call, ClientError> {
        let mut call = self.call(method, path)?;
        call.body = Some(serde_json::to_vec(body).map_err(|fault| ClientError::invalid("body", fault.to_string()))?);
        call.headers.insert(CONTENT_TYPE, JSON);
        Ok(call)
    }

    /// Gives a write its idempotency key. One that will not be repeated needs none of its own.
    fn make_repeatable(&self, call: &mut Call, key: Option<&str>) -> Result<(), ClientError> {
        match key {
            Some(key) => call.headers.insert(IDEMPOTENCY_KEY, header("idempotency key", key)?),
            None if self.retry.repeats > 0 => call.headers.insert(IDEMPOTENCY_KEY, header("idempotency key", &random_key()?)?),
            None => None,
        };
        call.is_repeatable = true;
        Ok(())
    }

    /// Tries until there is an answer, the error is final, the policy is used up, or the deadline is near.
    async fn send(&self, call: &Call) -> Result<Answer, ClientError> {
        self.send_within(call, Duration::ZERO).await
    }

    /// The same, where an answer may take this much longer.
    async fn send_within(&self, call: &Call, wait: Duration) -> Result<Answer, ClientError> {
        let deadline = from_now(self.deadline.saturating_add(wait));
        let mut done = 0;
        loop {
            let try_ends = deadline.min(from_now(self.try_timeout.saturating_add(wait)));
            let fault = match timeout_at(try_ends, self.ask(call)).await {
                Ok(answer) => match answer.and_then(Answer::good) {
                    Ok(answer) => return Ok(answer),
                    Err(fault) => fault,
                },
                Err(_) => ClientError::Timeout,
            };
            let is_safe = call.is_repeatable || fault.changed_nothing();
            if !fault.is_retryable() || !is_safe || done >= self.retry.repeats {
                return Err(fault);
            }
            let random = getrandom::u32().unwrap_or_default();
            let pause = self.retry.pause_after(done, fault.retry_after(), random);
            // A pause beyond the deadline only delays the bad news.
            if deadline.saturating_duration_since(Instant::now()) <= pause {
                return Err(fault);
            }
            sleep(pause).await;
            done += 1;
        }
    }

    /// One try.
    async fn ask(&self, call: &Call) -> Result<Answer, ClientError> {
        Answer::read(self.request(call).send().await.map_err(transport)?).await
    }

    fn request(&self, call: &Call) -> RequestBuilder {
        let request = self.http.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        match &call.body {
            Some(body) => request.body(body.clone()),
            None => request,
        }
    }
}

impl Answer {
    async fn read(response: Response) -> Result<Answer, ClientError> {
        let status = response.status();
        // The other form, a date, would trust two clocks to agree; the usual pause serves instead.
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.trim().parse().ok());
        let body = response.bytes().await.map_err(transport)?.into();
        Ok(Answer { status, retry_after: retry_after.map(Duration::from_secs), body })
    }

    /// The answer if its status says success, else the error it means.
    fn good(self) -> Result<Answer, ClientError> {
        if self.status.is_success() {
            return Ok(self);
        }
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(mut problem) => {
                problem.retry_after = self.retry_after;
                Err(ClientError::Problem(Box::new(problem)))
            }
            Err(_) => Err(self.bad("an error without a problem document")),
        }
    }

    fn json<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|fault| self.bad(fault.to_string()))
    }

    fn lines<T: DeserializeOwned>(self) -> Result<Vec<T>, ClientError> {
        let lines = serde_json::Deserializer::from_slice(&self.body).into_iter().collect::<Result<_, _>>();
        lines.map_err(|fault| self.bad(fault.to_string()))
    }

    fn bad(&self, detail: impl Into<String>) -> ClientError {
        ClientError::BadAnswer { status: self.status.as_u16(), detail: detail.into(), retry_after: self.retry_after }
    }
}

fn header(what: &'static str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(text).map_err(|_| ClientError::invalid(what, "must not hold line breaks or control characters"))
}

pub(crate) fn transport(fault: reqwest::Error) -> ClientError {
    // The address may be long and is known to the caller.
    let fault = fault.without_url();
    if fault.is_timeout() { ClientError::Timeout } else { ClientError::Unreachable(Box::new(fault)) }
}

/// The end of a span that starts now. A span too long for the clock, such as `Duration::MAX`, ends in a year.
fn from_now(span: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(span).unwrap_or(now + Duration::from_secs(366 * 86_400))
}

/// A key nobody else will draw: 128 random bits.
pub(crate) fn random_key() -> Result<String, ClientError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|fault| ClientError::invalid("idempotency key", format!("the system gave no randomness: {fault}")))?;
    Ok(format!("auto-{:032x}", u128::from_ne_bytes(bits)))
}
