//! Push against a receiver that misbehaves.
#![cfg(test)]

mod exchange;
mod guard;
mod isolation;
mod receiver;

use std::time::Duration;

use hermod_core::Micros;
use hermod_server::push::{Endpoint, Guard, Parcel, Private, Secret, Sender, Sent, Target};

use receiver::Receiver;

/// 2015-10-21 07:28:00 UTC, and a little.
const NOW: Micros = Micros::saturating(1_445_412_480_250_000);

fn secret(byte: u8) -> Secret {
    Secret::from_bytes(&[byte; 32]).unwrap()
}

/// A sender that may reach this machine.
fn sender() -> Sender {
    Sender::new(Guard { allow_private: Private::loopback() })
}

fn endpoint(url: &str) -> Endpoint {
    let url = Target::parse(url).unwrap();
    Endpoint { space: "default".to_owned(), url, secrets: vec![secret(1)], timeout: Duration::from_secs(20), concurrency: 4 }
}

fn parcel(id: &str) -> Parcel<'_> {
    Parcel { id, at: NOW, body: br#"{"text":"hello"}"#, is_json: true, attempt: 1, held_for: Duration::from_secs(60), queue: "mail" }
}

/// Sends one delivery with a short time-out.
async fn send_soon(receiver: &Receiver) -> Sent {
    let endpoint = Endpoint { timeout: Duration::from_millis(300), ..endpoint(&receiver.url()) };
    sender().send(&endpoint, &parcel("dl_1")).await
}

fn refused(status: Option<u16>, why: &str) -> Sent {
    Sent::Refused { status, why: why.to_owned(), retry_after: None }
}
