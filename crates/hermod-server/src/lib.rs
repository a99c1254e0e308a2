//! Hermod's server: the [`App`](app::App) is the only door to the engine, and the interfaces
//! translate between it and the outside.
//!
//! Nothing here decides about state: `app` finds the definitions, calls the engine and says what
//! came out; `http` turns that into status codes and JSON, and errors into problem documents.

pub mod app;
pub mod code;
mod config;
mod doctor;
mod http;
mod keeper;
#[cfg(feature = "client")]
mod limiter;
pub mod push;
mod relay;
mod server;
mod telemetry;

pub use code::{Code, FieldFault, Problem};
pub use config::{Config, ConfigError};
pub use doctor::{Finding, doctor};
pub use http::{check_deck, check_message, check_realm, check_subject, openapi, realm_odds};
#[cfg(feature = "client")]
pub use limiter::InProcess;
pub use server::{Mode, Server, ServerError};
pub use telemetry::{Telemetry, init as init_telemetry};
