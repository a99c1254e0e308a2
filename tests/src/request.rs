//! How a test asks over HTTP, where it is no client of Hermod's that is tested.

/// A client to be set up further, whatever ran before in this process: it needs the process to have chosen its cryptography, also for
/// addresses without any.
pub fn request() -> reqwest::ClientBuilder {
    let _chosen_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}
