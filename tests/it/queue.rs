//! queue: deliveries, their order, their holders.

mod differential;
