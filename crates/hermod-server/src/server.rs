//! Starts the server and stops it again.

mod accept;
pub(crate) mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermod_catalog::{Catalog, CatalogError, CatalogOnce, Scope};
use hermod_core::SpaceId;
use hermod_engine::clock::ManualClock;
use hermod_engine::{Clock, Embedded, Engine, OpenError, Redis, embedded, redis};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::{Config, ConfigError, Settings, Store};
use crate::http::{self, Shell};
use crate::keeper;
use crate::push::{Guard, Private, Sender};
use crate::telemetry::Metrics;

/// How long requests under way may take to finish when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What is different from one command to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Nobody needs a key. Only on loopback.
    pub open: bool,
    /// Time stands still until it is moved.
    pub manual_clock: bool,
    /// Where draws begin: the same calls in the same order draw the same. None: anywhere.
    pub seed: Option<u64>,
}

/// A server could not be started. Each says what to do; what went wrong underneath is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An open server must not be reachable from elsewhere.
    #[error("listen: {0} can be reached from other machines, and this server asks for no keys; listen on 127.0.0.1, or use hermod serve")]
    OpenToAll(SocketAddr),
    /// The catalog cannot be opened.
    #[error("catalog: it cannot be opened; start its database, or correct the setting")]
    Catalog(#[from] CatalogError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The address cannot be had.
    #[error("listen: {address} cannot be used; stop what runs there, or choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The data folder cannot be made.
    #[error("data: the folder {} cannot be made; choose another one", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A task of ours ended early.
    #[error("starting was interrupted")]
    Interrupted,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    is_tls: bool,
    admin_key: Option<String>,
    app: App,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    keeping: JoinHandle<()>,
}

impl Server {
    /// Opens the backends and begins to listen.
    pub async fn start(config: Config, mode: Mode) -> Result<Server, ServerError> {
        let settings = config.settings()?;
        if mode.open && !config.is_loopback() {
            return Err(ServerError::OpenToAll(config.listen));
        }
        // A second server in one process finds it installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let tls = tls::acceptor(&config)?;
        let clock = if mode.manual_clock { Clock::Manual(ManualClock::new(Clock::System.now())) } else { Clock::System };
        embedded::create_private(&config.data).map_err(|source| ServerError::Data { path: config.data.clone(), source })?;
        let engine = open_engine(&config, &settings, &clock).await?;
        let catalog = open_catalog(&settings).await?;
        let listen = |source| ServerError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        // Last of all that can fail: it is shown once, so who makes it must be able to show it.
        let admin_key = if mode.open { None } else { first_key(&catalog).await? };
        let metrics = Arc::new(Metrics::new());
        // A server for trying things out may call what listens on the same machine.
        let allow_private = match (mode.open, settings.webhook_networks.clone()) {
            (true, Private::None) => Private::loopback(),
            (_, given) => given,
        };
        let sender = Sender::new(Guard { allow_private });
        let app = App::new(engine, catalog, clock, Arc::clone(&metrics), sender, mode);
        let shell = Shell::new(app.clone(), &settings, &config);
        let (stop, stopped) = watch::channel(false);
        let is_tls = tls.is_some();
        let accepting = tokio::spawn(accept::run(listener, tls, http::router(&shell), stopped, DRAIN_MAX));
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                metrics.tidy();
            }
        });
        let keeping = tokio::spawn(keeper::keep(app.clone()));
        Ok(Server { address, is_tls, admin_key, app, stop, accepting, upkeep, keeping })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }

    /// The key with all rights, only when the catalog was new. It is not kept anywhere.
    pub fn admin_key(&self) -> Option<&str> {
        self.admin_key.as_deref()
    }

    /// The App, for tests and for other interfaces in this process.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Answers checks of this space within this process, for the client's tower layer. Whoever has it
    /// needs no key.
    #[cfg(feature = "client")]
    pub fn limiter(&self, space: &str) -> Result<crate::InProcess, hermod_core::Invalid> {
        let caller = crate::app::Caller::inside(SpaceId::new(space)?);
        Ok(crate::InProcess::new(self.app.clone(), caller))
    }

    /// Takes no more requests, finishes those under way, writes out everything.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        self.app.stop();
        self.upkeep.abort();
        let _ended = self.accepting.await;
        let _ended = self.keeping.await;
        if tokio::time::timeout(DRAIN_MAX, self.app.finished()).await.is_err() {
            tracing::warn!("some deliveries could not be given back in time; they come back when their leases end");
        }
        if let Err(fault) = self.app.engine.close().await {
            tracing::error!(error = %fault, "the store could not be closed cleanly");
        }
        self.app.catalog.close().await;
    }
}

pub(crate) async fn open_engine(config: &Config, settings: &Settings, clock: &Clock) -> Result<Engine, ServerError> {
    match &settings.store {
        Store::Embedded => {
            let options = embedded::Options {
                partitions: settings.partitions,
                memory_max: settings.memory_max,
                clock: clock.clone(),
                ..embedded::Options::new(&config.data)
            };
            let opened = tokio::task::spawn_blocking(move || Embedded::open(options)).await;
            Ok(Engine::Embedded(opened.map_err(|_| ServerError::Interrupted)??))
        }
        Store::Redis(address) => {
            let options = redis::Options {
                partitions: settings.partitions,
                clock: clock.clone(),
                replicas: settings.replicas,
                ..redis::Options::new(address.clone())
            };
            Ok(Engine::Redis(Redis::open(options).await?))
        }
    }
}

pub(crate) async fn open_catalog(settings: &Settings) -> Result<Catalog, CatalogError> {
    Catalog::open(hermod_catalog::Options::new(settings.catalog.clone())).await
}

/// Makes the first key of a new catalog. Of several servers that start at once, one makes it.
async fn first_key(catalog: &Catalog) -> Result<Option<String>, CatalogError> {
    let space = SpaceId::default_space();
    if catalog.has_keys(&space).await? {
        return Ok(None);
    }
    let once = CatalogOnce { space: space.clone(), key: "hermod/first-key".to_owned(), fingerprint: 1 };
    let saved = catalog.create_key(&space, "admin", vec![Scope::Admin, Scope::Spaces], Some(&once)).await?;
    Ok(saved.value.secret)
}
