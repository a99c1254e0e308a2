//! Nothing acknowledged is lost when the server is killed.
