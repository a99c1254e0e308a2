//! Stores that are late, stopped, failed over or unfit.
