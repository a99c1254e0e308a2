//! realm: economies that are data, at the service's boundary.

mod catalog;
mod differential;
