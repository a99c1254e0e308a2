//! The integration tests, one module per topic, in one binary that links once and shares its servers.

#[cfg(test)]
mod differential;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod tables;
